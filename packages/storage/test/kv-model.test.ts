import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import * as fc from 'fast-check'
import { expect, it } from 'vitest'
import { openStorageManager, type Storage } from '../src/index.ts'
import { column } from './sample-database.ts'

type Model = Map<string, Buffer>

type Step =
  | { do: 'put'; key: string; value: Uint8Array | string }
  | { do: 'delete'; key: string }
  | { do: 'get'; key: string }
  | { do: 'list'; prefix: string }
  | { do: 'tx'; steps: Step[]; fails: boolean }
  | { do: 'reopen' }

// Few enough keys to meet again, with the characters that ranges and patterns stumble over.
const key = fc.oneof(
  fc.constantFrom('', 'a', 'a\0', 'a\u{10ffff}', 'a%', 'a_', 'A', 'ab', '\ud7ff', '\ue000', '\uffff', '😀', "'"),
  fc.string({ unit: 'binary', maxLength: 4 }),
)
const value = fc.oneof(fc.uint8Array({ maxLength: 20 }), fc.string({ unit: 'grapheme', maxLength: 10 }))

const { step } = fc.letrec<{ step: Step }>((tie) => ({
  step: fc.oneof(
    { maxDepth: 3, withCrossShrink: true },
    fc.record({ do: fc.constant('put' as const), key, value }),
    fc.record({ do: fc.constant('delete' as const), key }),
    fc.record({ do: fc.constant('get' as const), key }),
    fc.record({ do: fc.constant('list' as const), prefix: key }),
    fc.record({
      do: fc.constant('tx' as const),
      steps: fc.array(tie('step'), { maxLength: 5 }),
      fails: fc.boolean(),
    }),
  ),
}))
const steps = fc.array(
  fc.oneof({ weight: 9, arbitrary: step }, { weight: 1, arbitrary: fc.constant({ do: 'reopen' as const }) }),
  {
    maxLength: 25,
  },
)

function sorted(keys: Iterable<string>): string[] {
  return [...keys].toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
}

/** Takes one step in both, and compares what they answer. */
function apply(taken: Step, storage: Storage, model: Model): void {
  switch (taken.do) {
    case 'put':
      storage.put(taken.key, taken.value)
      model.set(taken.key, Buffer.from(taken.value as string))
      return
    case 'delete':
      return assert.equal(storage.delete(taken.key), model.delete(taken.key))
    case 'get':
      return assert.deepEqual(storage.get(taken.key), model.get(taken.key))
    case 'list':
      return assert.deepEqual(
        storage.list(taken.prefix),
        sorted(model.keys()).filter((each) => each.startsWith(taken.prefix)),
      )
    case 'tx':
      return applyTransaction(taken, storage, model)
    case 'reopen':
      storage.db.close()
  }
}

function applyTransaction(taken: Step & { do: 'tx' }, storage: Storage, model: Model): void {
  const before = new Map(model)
  const failure = new Error('undo')
  const run = (): void =>
    storage.tx(() => {
      for (const inner of taken.steps) apply(inner, storage, model)
      if (taken.fails) throw failure
    })
  if (!taken.fails) return run()
  assert.throws(run, failure)
  model.clear()
  for (const [each, stored] of before) model.set(each, stored)
}

it('key-value calls and transactions behave like a map, and a snapshot holds exactly that map', async () => {
  const property = fc.asyncProperty(steps, async (taken) => {
    const dir = mkdtempSync(join(tmpdir(), 'nexus-storage-'))
    const manager = openStorageManager({ sessionDir: join(dir, 'session'), storageRoot: join(dir, 'root') })
    try {
      const model: Model = new Map()
      for (const each of taken) apply(each, manager.open('session', 'p'), model)
      const storage = manager.open('session', 'p')
      assert.deepEqual(storage.list(), sorted(model.keys()))
      for (const [each, stored] of model) assert.deepEqual(storage.get(each), stored)
      const [copy] = await manager.snapshot('session', join(dir, 'copy'))
      const copied = column(copy?.snapshotPath as string, 'SELECT key FROM kv ORDER BY key')
      assert.deepEqual(copied, sorted(model.keys()))
    } finally {
      await manager.dispose()
      rmSync(dir, { recursive: true, force: true })
    }
  })
  await expect(fc.assert(property, { numRuns: 60 })).resolves.toBeUndefined()
})
