import assert from 'node:assert/strict'
import { rejectionOf } from '../assertions.ts'
import type { CaseContext, ContractCase } from '../contract-case.ts'

async function create(context: CaseContext, key: string, content: string): Promise<boolean | undefined> {
  return context.backend.putIfAbsent?.(key, await context.file(content))
}

/** What the optional `putIfAbsent` decides. */
export const conditionalCases: readonly ContractCase[] = [
  {
    name: 'putIfAbsent creates a free key and leaves a taken one',
    rule: 'true means that the object was created, false that the key was taken and nothing changed; put and delete count.',
    why: 'Generations are numbered by it: an overwritten number is a commit of another host, lost.',
    requires: ['putIfAbsent'],
    run: async (context) => {
      assert.equal(await create(context, 's/a', 'first'), true, 'a free key was not created')
      assert.equal(await create(context, 's/a', 'second'), false, 'a taken key was created again')
      await context.store('s/put', 'by put')
      assert.equal(await create(context, 's/put', 'other'), false, 'a key taken by put was created again')
      assert.deepEqual(await context.hydrated('s'), [
        ['a', 'first'],
        ['put', 'by put'],
      ])
      await context.backend.delete('s/a')
      assert.equal(await create(context, 's/a', 'third'), true, 'a deleted key was not free')
      await context.store('s/a', 'replaced')
      assert.deepEqual(
        (await context.hydrated('s'))[0],
        ['a', 'replaced'],
        'a created object could not be replaced by put',
      )
    },
  },
  {
    name: 'putIfAbsent looks at exactly its key',
    rule: "Keys that only begin alike, and keys below, don't take a key.",
    why: 'Generation 1 would be taken by generation 10.',
    requires: ['putIfAbsent'],
    run: async (context) => {
      await context.store('s/10', 'x')
      await context.store('s/1.tmp', 'x')
      assert.equal(await create(context, 's/1', 'mine'), true)
      await context.store('t/d/below', 'x')
      assert.equal(await create(context, 't/d/be', 'mine'), true)
      assert.deepEqual(await context.keys(''), ['s/1', 's/1.tmp', 's/10', 't/d/be', 't/d/below'])
    },
  },
  {
    name: 'putIfAbsent of an empty file takes the key',
    rule: 'An object of no bytes is an object.',
    why: 'A lock or claim without content would be held by everyone.',
    requires: ['putIfAbsent'],
    run: async (context) => {
      assert.equal(await create(context, 's/lock', ''), true)
      assert.equal(await create(context, 's/lock', 'late'), false)
      assert.deepEqual(await context.hydrated('s'), [['lock', '']])
    },
  },
  {
    name: 'putIfAbsent of a missing file rejects and takes nothing',
    rule: 'A local file that can not be read is an error, and the key stays free.',
    why: 'A number that was taken by an empty object can never be committed.',
    requires: ['putIfAbsent'],
    run: async (context) => {
      const missing = context.freshPath()
      await rejectionOf('putIfAbsent of a missing file', async () => context.backend.putIfAbsent?.('s/a', missing))
      assert.deepEqual(await context.keys(''), [])
      assert.equal(await create(context, 's/a', 'now'), true)
    },
  },
  {
    name: 'putIfAbsent has exactly one winner among many creators',
    rule: "Of any number of concurrent creators of one key exactly one gets true, and the object is the winner's. The store decides, not a look beforehand.",
    why: 'Two winners are two hosts that both committed the next turn: one of the two turns is gone without an error.',
    requires: ['putIfAbsent', 'concurrency'],
    run: async (context) => {
      for (let round = 0; round < 4; round++) {
        const key = `race/${round}`
        const creators = Array.from({ length: 24 }, (_, i) => `creator ${i} of round ${round}`)
        const paths = await Promise.all(creators.map((content) => context.file(content)))
        const answers = await Promise.all(paths.map(async (path) => context.backend.putIfAbsent?.(key, path)))
        const winners = creators.filter((_, i) => answers[i] === true)
        assert.equal(winners.length, 1, `${winners.length} of ${creators.length} creators won`)
        const stored = (await context.hydrated('race')).find(([path]) => path === String(round))
        assert.deepEqual(stored, [String(round), winners[0]], "the stored object is not the winner's")
      }
    },
  },
]
