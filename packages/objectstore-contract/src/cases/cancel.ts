import assert from 'node:assert/strict'
import { mkdir } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { assertAborted, patternBytes } from '../assertions.ts'
import { describeBytes, readTree } from '../case-context.ts'
import type { CaseContext, ContractCase, Requirement } from '../contract-case.ts'
import type { OpOptions } from '@nexus/objectstore'

const rule =
  'A call under an aborted signal rejects and does nothing. With what it rejects is free: ObjectStore gives the reason.'
const why = 'The engine stops by aborting, and work that goes on races with what comes next.'

type Call = (context: CaseContext, path: string, options: OpOptions) => Promise<unknown>

function beforeStart(method: string, call: Call, requires: Requirement[] = []): ContractCase {
  return {
    name: `${method} under an aborted signal does nothing and rejects`,
    rule,
    why,
    requires,
    run: async (context) => {
      await context.store('s/a', 'kept')
      const path = await context.file('local')
      for (const reason of [new Error('the caller has changed its mind'), 'stopped']) {
        await assertAborted(method, () => call(context, path, { signal: AbortSignal.abort(reason) }))
      }
      assert.deepEqual(await context.hydrated('s'), [['a', 'kept']], `an aborted ${method} changed the store`)
      assert.deepEqual(await context.keys(''), ['s/a'], `an aborted ${method} changed the store`)
    },
  }
}

/** That a signal stops work. */
export const cancelCases: readonly ContractCase[] = [
  beforeStart('put', ({ backend }, path, options) => backend.put('s/a', path, options)),
  beforeStart('delete', ({ backend }, _path, options) => backend.delete('s/a', options)),
  beforeStart('list', ({ backend }, _path, options) => backend.list('s', options)),
  beforeStart('flush', ({ backend }, _path, options) => backend.flush(options)),
  beforeStart('putIfAbsent', async ({ backend }, path, options) => backend.putIfAbsent?.('s/new', path, options), [
    'putIfAbsent',
  ]),
  {
    name: 'hydrate under an aborted signal does nothing and rejects',
    rule,
    why,
    run: async ({ backend, freshPath, store }) => {
      await store('s/a', 'x')
      const directory = freshPath()
      await mkdir(directory)
      const reason = new Error('the caller has changed its mind')
      await assertAborted('hydrate', () => backend.hydrate('s', directory, { signal: AbortSignal.abort(reason) }))
      await sleep(5)
      assert.deepEqual(await readTree(directory), [])
    },
  },
  {
    name: 'get under an aborted signal does nothing and rejects',
    rule,
    why,
    requires: ['get'],
    run: async ({ backend, freshPath, store }) => {
      await store('s/a', 'x')
      const directory = freshPath()
      await mkdir(directory)
      const reason = new Error('the caller has changed its mind')
      const signal = AbortSignal.abort(reason)
      await assertAborted('get', async () => backend.get?.('s/a', `${directory}/f`, { signal }))
      await sleep(5)
      assert.deepEqual(await readTree(directory), [])
    },
  },
  {
    name: 'hydrate that is aborted midway stops and rejects',
    rule: 'An abort in the middle, also of the listing, stops the call; it rejects, and afterwards nothing more is written.',
    why: 'The engine removes the directory then: files that still arrive bring it back half-filled.',
    run: async ({ backend, freshPath, store }) => {
      const count = 150
      await Promise.all(Array.from({ length: count }, (_, i) => store(`s/f${i}`, `content ${i}`)))
      const directory = freshPath()
      const abort = new AbortController()
      const reason = new Error('stopped in the middle')
      const call = (): Promise<void> =>
        backend.hydrate('s', directory, { signal: abort.signal, onProgress: () => abort.abort(reason) })
      await assertAborted('hydrate', call)
      const atOnce = (await readTree(directory)).length
      await sleep(20)
      assert.equal((await readTree(directory)).length, atOnce, 'files were written after the call had rejected')
      assert.ok(atOnce < count, 'all files were written in spite of the abort')
    },
  },
  {
    name: 'put that is aborted midway leaves the old object or the new one',
    rule: 'An abort in the middle of an upload rejects and never leaves a part of the file behind.',
    why: 'A part of a database under its committed name is what a resume would read.',
    run: async ({ backend, file, hydrated, store }) => {
      const bytes = patternBytes(17 * 1024 * 1024, 7)
      const path = await file(bytes)
      await store('s/old', 'committed')
      for (const key of ['s/old', 's/new']) {
        const abort = new AbortController()
        const reason = new Error('stopped in the middle')
        const onProgress = (progress: { bytes: number; objects: number }): void => {
          if (progress.objects === 0 && progress.bytes < bytes.length) abort.abort(reason)
        }
        const outcome = await backend.put(key, path, { signal: abort.signal, onProgress }).then(
          () => undefined,
          (error: unknown) => ({ error }),
        )
        if (abort.signal.aborted) {
          assert.ok(outcome !== undefined, `put of ${key} resolved although it was aborted in the middle`)
        } else if (outcome !== undefined) throw outcome.error
      }
      await sleep(5)
      const whole = describeBytes(bytes)
      for (const [name, content] of await hydrated('s')) {
        const fine = content === whole || (name === 'old' && content === 'committed')
        assert.ok(fine, `${name} holds neither the old nor the new content but ${content.slice(0, 80)}`)
      }
      assert.ok(
        (await hydrated('s')).some(([name]) => name === 'old'),
        'the old object is gone',
      )
    },
  },
]
