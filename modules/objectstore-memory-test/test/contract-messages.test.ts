import { inspect } from 'node:util'
import { backendContractCases, runBackendContract, runCase } from '@nexus/objectstore-contract'
import type { OpOptions } from '@nexus/objectstore'
import { describe, expect, it } from 'vitest'
import { MemoryBackend } from '../src/driver.ts'
import { plant } from './plant.ts'

const caseOf = (name: string): (typeof backendContractCases)[number] => {
  const found = backendContractCases.find((each) => each.name === name)
  if (found === undefined) throw new Error(`there is no case "${name}"`)
  return found
}

class RestError extends Error {
  override readonly name = 'RestError'
  readonly statusCode = 500
  readonly request = { url: 'https://h/k?sig=c2ln', headers: { authorization: 'SharedKey account:c2lnbmF0dXJl' } }
}

describe('what the suite says of a failure', () => {
  it('names the call and what it rejected with, and shows no credential of the request', async () => {
    const broken = (): MemoryBackend =>
      Object.assign(new MemoryBackend(), {
        delete: () => Promise.reject(new RestError('internal error at https://h/k?sig=c2ln')),
      })
    const { error } = await runCase(caseOf('delete removes the object'), broken)
    expect(error?.message).toMatch(
      /^delete of "[^"]+" rejected with RestError 500: internal error at https:\/\/h\/k\?\[redacted\]/,
    )
    expect(inspect(error, { depth: 12, showHidden: true })).not.toMatch(/c2ln/)
  })

  it('fails once for a listing of everything, and says of the other cases why they were not run', async () => {
    const broken = (): MemoryBackend => {
      const backend = new MemoryBackend()
      const list = backend.list.bind(backend)
      return Object.assign(backend, {
        list: async (prefix: string, options: OpOptions) => (prefix === '' ? [] : list(prefix, options)),
      })
    }
    const report = await runBackendContract(broken, { listProbeCount: 5, concurrency: false })
    const reason = 'not run: it needs list of everything, and "list of the empty prefix gives everything" failed'
    expect(report.cases.filter((each) => each.reason === reason).length).toBeGreaterThan(5)
    const failed = report.cases.filter(({ status }) => status === 'failed').map(({ name }) => name)
    expect(failed).toEqual(['list of the empty prefix gives everything'])
  })

  it('fails in one case when nothing can be stored, and says so of the others', async () => {
    const broken = (): MemoryBackend =>
      Object.assign(new MemoryBackend(), { put: () => Promise.reject(new Error('read-only')) })
    const report = await runBackendContract(broken, { listProbeCount: 5, concurrency: false })
    const failed = report.cases.filter(({ status }) => status === 'failed')
    expect(failed[0]?.error?.message).toContain('put of "s/every-byte" rejected with Error: read-only')
    expect(report.cases.filter(({ reason }) => reason?.includes('it needs put') === true).length).toBeGreaterThan(20)
  })

  it('skips a case whose key the store can not hold', async () => {
    const planting = caseOf('list leaves out folder placeholders')
    const outcome = await runCase(planting, () => new MemoryBackend(), { plant: () => false })
    expect(outcome).toMatchObject({ status: 'skipped', reason: 'the store can\'t hold an object under "s/"' })
    expect(await runCase(planting, () => new MemoryBackend(), { plant })).toMatchObject({ status: 'passed' })
  })
})
