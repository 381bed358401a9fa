import { backendContractCases, runCase } from '@nexus/objectstore-contract'
import { describe, expect, it } from 'vitest'
import { mutants } from './mutants/mutants.ts'
import { plant } from './plant.ts'

// Above the page size of the mutants that stop after a page, and quick.
const options = { listProbeCount: 60, plant }
const casesByName = new Map(backendContractCases.map((contractCase) => [contractCase.name, contractCase]))

describe('the contract suite', () => {
  it.each(mutants)('notices that $name', async ({ killedBy, open, options: own, timeoutMs = 30_000 }) => {
    expect(killedBy.length).toBeGreaterThan(0)
    for (const name of killedBy) {
      const contractCase = casesByName.get(name)
      if (contractCase === undefined) throw new Error(`there is no case "${name}"`)
      const { status, error } = await runCase(contractCase, open, { ...options, ...own, timeoutMs })
      expect(status, `"${name}" did not notice`).toBe('failed')
      expect(error?.message).toContain(`Rule: ${contractCase.rule}`)
      expect(error?.message).toContain(`Why it matters: ${contractCase.why}`)
    }
  })

  it('has no case that nothing fails', () => {
    const killers = new Set(mutants.flatMap(({ killedBy }) => killedBy))
    const idle = backendContractCases.map(({ name }) => name).filter((name) => !killers.has(name))
    expect(idle).toEqual([])
  })

  it('has no two cases and no two mutants of one name', () => {
    expect(casesByName.size).toBe(backendContractCases.length)
    expect(new Set(mutants.map(({ name }) => name)).size).toBe(mutants.length)
  })
})
