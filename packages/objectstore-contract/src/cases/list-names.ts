import assert from 'node:assert/strict'
import type { CaseContext, ContractCase } from '../contract-case.ts'

async function names(context: CaseContext, prefix: string): Promise<string[]> {
  return ((await context.backend.listNames?.(prefix)) ?? []).toSorted()
}

/** What the optional `listNames` answers. */
export const listNamesCases: readonly ContractCase[] = [
  {
    name: 'listNames gives the names one level below a prefix',
    rule: 'First segments of the keys under the prefix, each once, whether an object or more names are there; whole segments, no prefix, no "/".',
    why: 'Sessions are listed this way: a name too many is a session that does not exist, one too few is lost to every tool.',
    requires: ['listNames'],
    run: async (context) => {
      assert.deepEqual(await names(context, 's'), [])
      const keys = ['s/one/a', 's/one/b/c', 's/two', 's/three/x', 's-other/four', 'top']
      for (const key of keys) await context.store(key, 'x')
      assert.deepEqual(await names(context, 's'), ['one', 'three', 'two'])
      assert.deepEqual(await names(context, 's/one'), ['a', 'b'])
      assert.deepEqual(await names(context, 's/two'), [], 'the object at the prefix is not under it')
      assert.deepEqual(await names(context, ''), ['s', 's-other', 'top'])
    },
  },
  {
    name: 'listNames is complete beyond one page',
    rule: 'All names are given, each once, whatever the page size of the store.',
    why: 'A session that is not listed can be neither found nor cleaned up.',
    requires: ['listNames'],
    run: async (context) => {
      const all = Array.from({ length: context.listProbeCount }, (_, i) => `n${String(i).padStart(6, '0')}`)
      const path = await context.file('x')
      for (let at = 0; at < all.length; at += 16) {
        await Promise.all(all.slice(at, at + 16).map((name) => context.backend.put(`s/${name}/f`, path)))
      }
      assert.deepEqual(await names(context, 's'), all)
    },
  },
]
