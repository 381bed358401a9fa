import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import type { Backend } from '@nexus/objectstore'
import { createCaseContext, type ObservedContext, type Plant } from './case-context.ts'
import {
  type Capability,
  type CaseContext,
  type ChangedConfig,
  type ContractCase,
  ContractViolation,
  NotApplicable,
  type Requirement,
  type Step,
  STEP_CASES,
} from './contract-case.ts'

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
  /**
   * How to put an object into the bucket under a key the backend refuses. Answers false for a key that the store can't hold.
   * Like every option from here to `outOfProcess`: without it the cases that need it are skipped, with the reason.
   */
  plant?: Plant
  /**
   * Opens the driver on one bucket that is the same for all calls within a case, with these parts of the configuration
   * changed: two backends of different prefixes, or one with an unknown option.
   */
  configured?: (parts: ChangedConfig, caseId: string) => Backend | Promise<Backend>
  /** Makes a backend whose bucket does not exist. May itself reject. */
  missingBucket?: NewBackend
  /** Makes a backend whose credentials the store refuses. */
  refused?: NewBackend
  /** Takes the bucket of an open backend away: its directory, its mount, its container. */
  removeBucket?: (backend: Backend) => Promise<void> | void
  /** Makes a backend whose store creates the next object conditionally, and whose answer to that is lost. */
  lostAnswer?: NewBackend
  /** Makes a backend whose store cuts the body of every download after it has declared the whole size. */
  cutDownloads?: NewBackend
  /** True when the store keeps its objects outside of this process, so that what the driver holds in memory can be measured. */
  outOfProcess?: boolean
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

/** What one run of the suite has learned: later cases that could only repeat a failure say so instead. */
export class SuiteState {
  readonly #failed = new Set<string>()

  /** Notes how a case went. */
  note(name: string, outcome: CaseOutcome): void {
    if (outcome.status === 'failed') this.#failed.add(name)
  }

  /** The case that failed for a step, if it did. */
  brokenStep(step: Step): string | undefined {
    return this.#failed.has(STEP_CASES[step]) ? STEP_CASES[step] : undefined
  }
}

/** How many objects the pagination probe stores. */
export function listProbeCountOf(options: SuiteOptions): number {
  return options.listProbeCount ?? DEFAULT_LIST_PROBE_COUNT
}

/**
 * Runs one case on a backend of its own, in a temporary directory of its own, and cleans up after it. Never rejects.
 *
 * @param state of the run that it is a part of
 */
export async function runCase(
  contractCase: ContractCase,
  newBackend: NewBackend,
  options: SuiteOptions = {},
  state: SuiteState = new SuiteState(),
): Promise<CaseOutcome> {
  const startedAt = performance.now()
  const outcome = (rest: Omit<CaseOutcome, 'durationMs'>): CaseOutcome => {
    const ended = { ...rest, durationMs: performance.now() - startedAt }
    state.note(contractCase.name, ended)
    return ended
  }
  const declined = (contractCase.requires ?? []).map((need) => declinedReason(need, options)).find(Boolean)
  if (declined !== undefined) return outcome({ status: 'skipped', reason: declined })
  let context: ObservedContext | undefined
  try {
    const reason = await runInScratch(contractCase, newBackend, options, state, (made) => (context = made))
    return outcome(reason === undefined ? { status: 'passed' } : { status: 'skipped', reason })
  } catch (error) {
    if (error instanceof NotApplicable) return outcome({ status: 'skipped', reason: error.message })
    return outcome({ status: 'failed', error: new ContractViolation(contractCase, error, context?.callOf(error)) })
  }
}

async function runInScratch(
  contractCase: ContractCase,
  newBackend: NewBackend,
  options: SuiteOptions,
  state: SuiteState,
  onContext: (context: ObservedContext) => void,
): Promise<string | undefined> {
  const timeoutMs = options.timeoutMs ?? DEFAULT_TIMEOUT_MS
  const closeMs = Math.min(timeoutMs, MAX_CLOSE_MS)
  const backend = await withTimeout('opening a backend', timeoutMs, async () => newBackend())
  const dir = await mkdtemp(join(tmpdir(), 'nexus-contract-'))
  const others: Backend[] = []
  const context = createCaseContext(backend, dir, {
    listProbeCount: listProbeCountOf(options),
    plant: options.plant,
    brokenStep: (step) => (STEP_CASES[step] === contractCase.name ? undefined : state.brokenStep(step)),
    open: openersOf(options, basename(dir), others),
    removeBucket: async (each) => options.removeBucket?.(each),
  })
  onContext(context)
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
      for (const each of others) await withTimeout('close', closeMs, async () => each.close?.())
    } finally {
      for (const each of [...others, backend]) await options.destroy?.(each)
      await rm(dir, { recursive: true, force: true, maxRetries: 3 })
    }
  }
}

function openersOf(options: SuiteOptions, caseId: string, opened: Backend[]): CaseContext['open'] {
  const opener =
    <Args extends unknown[]>(open: ((...args: Args) => Backend | Promise<Backend>) | undefined) =>
    async (...args: Args): Promise<Backend> => {
      if (open === undefined) throw new NotApplicable('the suite was given no way to open this backend')
      const backend = await open(...args)
      opened.push(backend)
      return backend
    }
  const { configured } = options
  return {
    configured: opener(configured && ((parts: ChangedConfig) => configured(parts, caseId))),
    missingBucket: opener(options.missingBucket),
    refused: opener(options.refused),
    lostAnswer: opener(options.lostAnswer),
    cutDownloads: opener(options.cutDownloads),
  }
}

const CAPABILITIES: ReadonlySet<string> = new Set(['get', 'putIfAbsent', 'listNames', 'classify', 'close'])

function isCapability(need: Requirement): need is Capability {
  return CAPABILITIES.has(need)
}

function declinedReason(need: Requirement, options: SuiteOptions): string | undefined {
  if (need === 'concurrency' && options.concurrency === false) return 'the suite was run with concurrency: false'
  if (need === 'objectAtPrefix' && options.objectAtPrefix === false) {
    return 'the suite was run with objectAtPrefix: false'
  }
  if (need === 'outOfProcess' && options.outOfProcess !== true) {
    return 'the suite was not told that the store is outside of this process (option outOfProcess)'
  }
  if (need in WAYS && options[need as keyof typeof WAYS] === undefined) {
    return `the suite was given no way to ${WAYS[need as keyof typeof WAYS]} (option ${need})`
  }
  return undefined
}

const WAYS = {
  plant: 'plant objects',
  configured: 'open the driver with another configuration',
  missingBucket: 'open a bucket that does not exist',
  refused: 'open a backend that the store refuses',
  removeBucket: 'take a bucket away',
  lostAnswer: 'lose an answer',
  cutDownloads: 'cut downloads',
} as const

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
