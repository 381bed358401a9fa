import { describe, expect, it } from 'vitest'
import { spaceOf } from './actors.ts'
import { explore } from './explorer.ts'
import { MUTANTS } from './mutants.ts'
import { SCENARIOS } from './scenarios.ts'

// A taste of each: the whole is core-exploration.slow.test.ts.

const QUICK = [
  'two hosts take a session from each other',
  'hosts that claim with their first turn',
  'packs that another host claims over',
  'two hosts share one root',
]
const SLOW_TO_CATCH = new Set([
  'reclaim deletes commits instead of leaving tombstones',
  'an unresolved attempt is sent again with new bytes',
  'a tombstone at the number of an attempt counts as its success',
  'the record lies beside the tree',
  'a reader goes by whether its commit is still there',
  'packs are named however old they are',
])

describe('every order of what hosts and the store may do', () => {
  it.each(QUICK)('keeps each promise where %s', async (name) => {
    const { violation, states } = await explore(spaceOf(SCENARIOS[name]!({ faults: 0, turns: 1 })))
    expect(violation).toBeUndefined()
    expect(states).toBeGreaterThan(50)
  })

  it.each(Object.entries(MUTANTS).filter(([name]) => !SLOW_TO_CATCH.has(name)))(
    'would break one if %s',
    async (_, { scenario, faults, turns = 1, mutation }) => {
      const { violation } = await explore(spaceOf(SCENARIOS[scenario]!({ faults, turns }), mutation))
      expect(violation).toBeDefined()
    },
  )
})
