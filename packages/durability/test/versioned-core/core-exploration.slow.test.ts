import { describe, expect, it } from 'vitest'
import { spaceOf } from './actors.ts'
import { explore } from './explorer.ts'
import { MUTANTS } from './mutants.ts'
import { SCENARIOS } from './scenarios.ts'

/** `NEXUS_EXPLORE=2,1`: calls that go wrong, and turns of each writer. Two of each take an hour. */
const [faults, turns] = process.env['NEXUS_EXPLORE']?.split(',').map(Number) ?? []

/** What one call that goes wrong adds to these is worth its time in every run. */
const WITH_A_FAULT = [
  'hosts that claim with their first turn',
  'a machine is cloned',
  'a disk is rolled back',
  'packs that are named late',
  'packs that another host claims over',
  'two hosts share one root',
]

describe('every order of what hosts and the store may do', () => {
  it.each(Object.keys(SCENARIOS))('keeps each promise where %s', { timeout: 7_200_000 }, async (name) => {
    const bounds = { faults: faults ?? (WITH_A_FAULT.includes(name) ? 1 : 0), turns: turns ?? 1 }
    const { states, steps, violation } = await explore(spaceOf(SCENARIOS[name]!(bounds)))
    if (faults !== undefined) process.stdout.write(`${name}: ${states} states, ${steps} steps\n`)
    expect(violation).toBeUndefined()
  })

  it.each(Object.entries(MUTANTS))('would break one if %s', async (_, { scenario, mutation, ...bounds }) => {
    const { violation } = await explore(spaceOf(SCENARIOS[scenario]!({ turns: 1, ...bounds }), mutation))
    expect(violation).toBeDefined()
  })
})
