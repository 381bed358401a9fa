import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Backend } from '@nexus/objectstore'
import { createCaseContext, type Plant } from './case-context.ts'
import { type Capability, type ContractCase, ContractViolation, type Requirement } from './contract-case.ts'

/** Makes a backend on a fresh, empty bucket or prefix. Called once per case. */
export type NewBackend = () => Backend | Promise<Backend>

/** What the suite may assume about the store, whatever runs it. */
export interface SuiteOptions {
  /** Objects the pagination probe stores, default 1,200. It must exceed the store's page size, or it proves nothing. */
  listProbeCount?: number
  /** False skips the cases that make calls at the same time. */
  concurrency?: boolean
  /** False skips the cases that store both `a` and `a/b`. */
  objectAtPrefix?: boolean
  /** How to put an object into the bucket under a key the backend refuses. Without it the cases that need it are skipped. */
  plant?: Plant
  /** Called after each case, when the backend is closed: empties what `newBackend` made. */
  destroy?: (backend: Backend) => Promise<void> | void
  /** Longest a case may take, default 60,000 ms. */
  timeoutMs?: number
}

/** How a case went. */
export interface CaseOutcome {
  status: 'passed' | 'failed' | 'skipped'
  /** Why it was skipped. */
  reason?: string
  error?: ContractViolation
  durationMs: number
}

const DEFAULT_LIST_PROBE_COUNT = 1200
export const DEFAULT_TIMEOUT_MS = 60_000
const MAX_CLOSE_MS = 5_000

/** How many objects the pagination probe stores. */
export function listProbeCountOf(options: SuiteOptions): number {
  return options.listProbeCount ?? DEFAULT_LIST_PROBE_COUNT
}

/** Runs one case on a backend of its own, in a temporary directory of its own, and cleans up after it. Never rejects. */
export async function runCase(
  contractCase: ContractCase,
  newBackend: NewBackend,
  options: SuiteOptions = {},
): Promise<CaseOutcome> {
  const startedAt = performance.now()
  const outcome = (rest: Omit<CaseOutcome, 'durationMs'>): CaseOutcome => ({
    ...rest,
    durationMs: performance.now() - startedAt,
  })
  const declined = (contractCase.requires ?? []).map((need) => declinedReason(need, options)).find(Boolean)
  if (declined !== undefined) return outcome({ status: 'skipped', reason: declined })
  try {
    const reason = await runInScratch(contractCase, newBackend, options)
    return outcome(reason === undefined ? { status: 'passed' } : { status: 'skipped', reason })
  } catch (error) {
    return outcome({ status: 'failed', error: new ContractViolation(contractCase, error) })
  }
}

async function runInScratch(
  contractCase: ContractCase,
  newBackend: NewBackend,
  options: SuiteOptions,
): Promise<string | undefined> {
  const timeoutMs = options.timeoutMs ?? DEFAULT_TIMEOUT_MS
  const closeMs = Math.min(timeoutMs, MAX_CLOSE_MS)
  const backend = await withTimeout('opening a backend', timeoutMs, async () => newBackend())
  const dir = await mkdtemp(join(tmpdir(), 'nexus-contract-'))
  const context = createCaseContext(backend, dir, { listProbeCount: listProbeCountOf(options), plant: options.plant })
  const lacking = (contractCase.requires ?? []).find((need) => isCapability(need) && backend[need] === undefined)
  try {
    if (lacking === undefined) await withTimeout('the case', timeoutMs, () => contractCase.run(context))
  } catch (error) {
    // What the wreck of a failed case still does must not hide how it failed.
    await cleanUp().catch(() => undefined)
    throw error
  }
  await cleanUp()
  return lacking === undefined ? undefined : `the backend has no ${lacking}`

  async function cleanUp(): Promise<void> {
    try {
      await withTimeout('close', closeMs, () => context.close())
    } finally {
      await options.destroy?.(backend)
      await rm(dir, { recursive: true, force: true, maxRetries: 3 })
    }
  }
}

function isCapability(need: Requirement): need is Capability {
  return need !== 'concurrency' && need !== 'objectAtPrefix' && need !== 'plant'
}

function declinedReason(need: Requirement, options: SuiteOptions): string | undefined {
  if (need === 'concurrency' && options.concurrency === false) return 'the suite was run with concurrency: false'
  if (need === 'objectAtPrefix' && options.objectAtPrefix === false) {
    return 'the suite was run with objectAtPrefix: false'
  }
  if (need === 'plant' && options.plant === undefined) {
    return 'the suite was given no way to plant objects (option plant)'
  }
  return undefined
}

async function withTimeout<T>(what: string, timeoutMs: number, run: () => Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const expired = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} was not finished after ${timeoutMs} ms`)), timeoutMs)
  })
  try {
    return await Promise.race([run(), expired])
  } finally {
    clearTimeout(timer)
  }
}
