import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { isNexusError, ObjectStore } from '@nexus/objectstore'
import { rejectionOf } from '../assertions.ts'
import type { CaseContext, ContractCase } from '../contract-case.ts'

const CLASSES: readonly unknown[] = [undefined, 'temporary', 'permanent', 'permission', 'not-found', 'throttled']

function capabilityCase(
  capability: 'get' | 'putIfAbsent',
  call: (store: ObjectStore, context: CaseContext) => Promise<void>,
): ContractCase {
  return {
    name: `${capability} is offered and works, or is absent and refused`,
    rule: `A backend that has no ${capability} leaves the property out; one that has it means it. The engine looks at nothing else.`,
    why: 'A method that is there only to fail is chosen over the way that would have worked.',
    run: async (context) => {
      const store = new ObjectStore(context.backend, { name: 'contract' })
      const present = context.backend[capability] !== undefined
      assert.equal(store.capabilities[capability], present, `${capability} is there, but is no function`)
      if (present) return call(store, context)
      assert.ok(!(capability in context.backend), `${capability} is there without a value; leave it out`)
      // ObjectStore has another way to get an object, and none to create one conditionally.
      if (capability === 'get') return call(store, context)
      const error = await rejectionOf(`${capability} without the capability`, () => call(store, context))
      assert.ok(
        isNexusError(error, 'UNSUPPORTED'),
        `${capability} without the capability rejected with ${String(error)}`,
      )
      return undefined
    },
  }
}

/** What a backend says about itself. */
export const capabilityCases: readonly ContractCase[] = [
  capabilityCase('get', async (store, context) => {
    await context.store('s/f', 'content')
    const path = context.freshPath()
    await store.get('s/f', path)
    assert.equal(await readFile(path, 'utf8'), 'content')
  }),
  capabilityCase('putIfAbsent', async (store, context) => {
    assert.equal(await store.putIfAbsent('s/f', await context.file('content')), true)
    assert.deepEqual(await context.keys('s'), ['s/f'])
  }),
  {
    name: 'classify answers a known class or nothing, whatever it is given',
    rule: 'classify gives temporary, permanent, permission, not-found, throttled or undefined, and never throws.',
    why: 'It is called while an error is being handled: throwing there hides the error itself.',
    requires: ['classify'],
    run: async ({ backend }) => {
      const circular: { cause?: unknown } = {}
      circular.cause = circular
      const odd: unknown[] = [
        undefined,
        null,
        '',
        'text',
        0,
        Number.NaN,
        Symbol('s'),
        {},
        [],
        circular,
        new Error('plain'),
        Object.assign(new Error('system'), { code: 'ECONNRESET' }),
        Object.assign(new Error('odd code'), { code: 503 }),
        Object.assign(new Error('odd name'), { name: undefined }),
        Object.freeze(Object.create(null)),
      ]
      for (const value of odd) {
        const answer: unknown = backend.classify?.(value)
        const known = CLASSES.includes(answer)
        assert.ok(known, `classify answered ${String(answer)}`)
      }
    },
  },
  {
    name: 'close resolves',
    rule: 'close releases what the backend holds and resolves, when nothing was done and when something was.',
    why: 'It is the last step of a stop: a close that fails or hangs keeps the process from ending.',
    requires: ['close'],
    run: async ({ close, store }) => {
      await store('s/f', 'content')
      await close()
    },
  },
]
