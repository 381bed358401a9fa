import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import {
  backendContractCases,
  type DescribeFunction,
  describeBackendContract,
  type ItFunction,
  runBackendContract,
} from '@nexus/objectstore-contract'
import { describe, expect, it } from 'vitest'
import { createMemoryBackend, withoutCapabilities } from '../src/driver.ts'
import { circumstances } from './circumstances.ts'
import { mutants } from './mutants/mutants.ts'
import { plant } from './plant.ts'

const SUITE = fileURLToPath(new URL('node-test-suite.ts', import.meta.url))

async function nodeTest(environment: Record<string, string> = {}): Promise<{ code: number | null; output: string }> {
  const flags = [...process.execArgv, '--test-reporter', 'tap', '--test']
  // NODE_TEST_CONTEXT and vitest's own variables would make the child report to us instead of printing.
  const { NODE_TEST_CONTEXT: _context, NODE_OPTIONS: _options, ...inherited } = process.env
  const child = spawn(process.execPath, [...flags, SUITE], { env: { ...inherited, ...environment } })
  let output = ''
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()))
  child.stderr.on('data', (chunk: Buffer) => (output += chunk.toString()))
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', resolve)
  })
  return { code, output }
}

function count(output: string, what: string): number {
  return Number(new RegExp(`^# ${what} (\\d+)$`, 'm').exec(output)?.[1])
}

/** A runner as jest is one: no context for the test, and a test with a parameter is waited for until it calls back. */
function fakeJest(): { describe: DescribeFunction; it: ItFunction; run: () => Promise<Map<string, unknown>> } {
  const tests: [string, () => unknown][] = []
  return {
    describe: (_name, define) => define(),
    it: (name, run) => tests.push([name, run]),
    run: async () => {
      const outcomes = new Map<string, unknown>()
      for (const [name, run] of tests) {
        if (run.length > 0) throw new Error(`"${name}" would wait for a callback`)
        try {
          await run.call({})
          outcomes.set(name, 'passed')
        } catch (error) {
          outcomes.set(name, error)
        }
      }
      return outcomes
    },
  }
}

function namesWith(options: { listProbeCount?: number }): string[] {
  const names: string[] = []
  describeBackendContract(() => createMemoryBackend(), {
    ...options,
    describe: (_name, define) => define(),
    it: (name) => names.push(name),
  })
  return names
}

describe('describeBackendContract', () => {
  it('runs under node:test, where a missing capability is a skip with its reason', async () => {
    const { code, output } = await nodeTest()
    expect(count(output, 'tests')).toBe(2 * backendContractCases.length)
    expect(count(output, 'fail')).toBe(0)
    expect(code).toBe(0)
    expect(count(output, 'skipped')).toBeGreaterThan(0)
    expect(output).toContain('# SKIP the backend has no get')
    expect(output).toContain('# SKIP the suite was given no way to plant objects')
  })

  it('fails under node:test for a backend that breaks a rule, and says which and why', async () => {
    const { code, output } = await nodeTest({ MUTANT: 'list matches the raw prefix' })
    expect(code).not.toBe(0)
    expect(output).toMatch(/not ok \d+ - list matches whole segments/)
    expect(output).toContain('Rule: Key K is under prefix P')
    expect(output).toContain('Why it matters: Raw prefix matching mixes two sessions')
  })

  it('runs under a runner that gives its tests no context', async () => {
    const warnings: string[] = []
    const onWarning = (warning: Error): void => void warnings.push(warning.message)
    process.on('warning', onWarning)
    const jest = fakeJest()
    describeBackendContract(() => withoutCapabilities(createMemoryBackend(), ['putIfAbsent']), {
      ...jest,
      listProbeCount: 60,
    })
    const outcomes = await jest.run()
    expect(outcomes.size).toBe(backendContractCases.length)
    expect([...outcomes.values()].filter((outcome) => outcome !== 'passed')).toEqual([])
    await new Promise((resolve) => setImmediate(resolve))
    process.off('warning', onWarning)
    expect(warnings).toContainEqual(
      expect.stringContaining('skipped "putIfAbsent refuses a malformed key": the backend has no putIfAbsent'),
    )
  })

  it('uses the global describe and it when none are passed', () => {
    const jest = fakeJest()
    const holder = globalThis as { describe?: unknown; it?: unknown }
    Object.assign(holder, { describe: jest.describe, it: jest.it })
    try {
      describeBackendContract(() => createMemoryBackend())
    } finally {
      delete holder.describe
      delete holder.it
    }
    expect(() => describeBackendContract(() => createMemoryBackend())).toThrow(/needs describe and it/)
  })

  it('says in the name of the pagination probe when it is too small to prove anything', () => {
    const caveat = expect.stringContaining('with 1000 objects this proves nothing about paging')
    expect(namesWith({ listProbeCount: 1000 })).toContainEqual(caveat)
    expect(namesWith({ listProbeCount: 1001 }).filter((name) => name.includes('proves nothing'))).toEqual([])
    expect(namesWith({}).filter((name) => name.includes('proves nothing'))).toEqual([])
  })

  it('skips what it is told to leave out', async () => {
    const report = await runBackendContract(() => createMemoryBackend(), {
      concurrency: false,
      objectAtPrefix: false,
      listProbeCount: 60,
      ...circumstances,
    })
    const reasons = new Set(report.cases.filter(({ status }) => status === 'skipped').map(({ reason }) => reason))
    expect(reasons).toEqual(
      new Set([
        'the suite was run with concurrency: false',
        'the suite was run with objectAtPrefix: false',
        'the suite was given no way to plant objects (option plant)',
        'the suite was not told that the store is outside of this process (option outOfProcess)',
      ]),
    )
    expect(report.failed).toBe(0)
  })
})

describe('runBackendContract', () => {
  it('reports every case and rejects for none', async () => {
    const mutant = mutants.find(({ name }) => name === 'list matches the raw prefix')
    const seen: string[] = []
    const report = await runBackendContract(mutant?.open ?? (() => createMemoryBackend()), {
      listProbeCount: 60,
      plant,
      onCase: ({ name }) => seen.push(name),
    })
    expect(seen).toEqual(report.cases.map(({ name }) => name))
    expect(report.passed + report.failed + report.skipped).toBe(backendContractCases.length)
    const failed = report.cases.filter(({ status }) => status === 'failed')
    expect(failed.map(({ name }) => name)).toContain('list matches whole segments')
    expect(failed.every(({ error, rule }) => error?.message.includes(rule) === true)).toBe(true)
  })

  it('closes and destroys each backend, also when opening the next one fails', async () => {
    const open = new Set<unknown>()
    let opened = 0
    const report = await runBackendContract(
      () => {
        if (++opened % 2 === 0) throw new Error('no bucket today')
        const backend = createMemoryBackend()
        open.add(backend)
        return backend
      },
      { listProbeCount: 5, plant, destroy: (backend) => void open.delete(backend) },
    )
    expect(open.size).toBe(0)
    expect(report.failed).toBe(Math.floor(opened / 2))
    expect(report.cases.find(({ status }) => status === 'failed')?.error?.message).toContain('no bucket today')
  })

  it('stops when its signal fires', async () => {
    const abort = new AbortController()
    const run = runBackendContract(() => createMemoryBackend(), {
      signal: abort.signal,
      onCase: () => abort.abort(new Error('enough')),
    })
    await expect(run).rejects.toThrow('enough')
  })
})
