import { backendContractCases } from './contract-cases.ts'
import { pagingCaveat } from './cases/list.ts'
import type { ContractCase } from './contract-case.ts'
import {
  DEFAULT_TIMEOUT_MS,
  listProbeCountOf,
  type NewBackend,
  runCase,
  type SuiteOptions,
  SuiteState,
} from './run-case.ts'

/** `describe` of a test runner. */
export type DescribeFunction = (name: string, define: () => void) => unknown

/** `it` of a test runner. The timeout is milliseconds; runners that take no third argument ignore it. */
export type ItFunction = (name: string, run: () => Promise<void>, timeoutMs?: number) => unknown

/** What {@link describeBackendContract} takes: the runner's functions, by default the globals, and what the suite may do. */
export interface DescribeOptions extends SuiteOptions {
  describe?: DescribeFunction
  it?: ItFunction
  /** Title of the group, default `backend contract`. */
  title?: string
}

// How the suite ends of its own accord before the runner loses patience, so that the message is ours.
const RUNNER_MARGIN_MS = 5_000

/**
 * Defines the contract suite under any runner with `describe` and `it`: vitest, node:test, jest, mocha. Call it at the top
 * level of a test file. Cases for a capability the backend lacks are skipped with the reason.
 *
 * @param newBackend makes a backend on a fresh, empty bucket or prefix, once per case
 * @throws Error when no `describe` and `it` were passed and there are no globals
 * @see docs/guides/writing-a-backend.md
 */
export function describeBackendContract(newBackend: NewBackend, options: DescribeOptions = {}): void {
  const globals = globalThis as { describe?: DescribeFunction; it?: ItFunction }
  const describe = options.describe ?? globals.describe
  const it = options.it ?? globals.it
  if (typeof describe !== 'function' || typeof it !== 'function') {
    throw new Error(
      'describeBackendContract needs describe and it: pass those of your test runner, or make them globals',
    )
  }
  const timeoutMs = options.timeoutMs ?? DEFAULT_TIMEOUT_MS
  const state = new SuiteState()
  describe(options.title ?? 'backend contract', () => {
    for (const contractCase of backendContractCases) {
      const run = testOf(contractCase, newBackend, options, state)
      it(caseTitle(contractCase, options), run, timeoutMs + RUNNER_MARGIN_MS)
    }
  })
}

/** A case's name, with the caveat where its run can't prove what it says. */
export function caseTitle(contractCase: ContractCase, options: SuiteOptions): string {
  if (contractCase.name !== 'list and hydrate are complete beyond one page') return contractCase.name
  const caveat = pagingCaveat(listProbeCountOf(options))
  return caveat === undefined ? contractCase.name : `${contractCase.name} (${caveat})`
}

interface Skippable {
  skip?: (reason?: string) => unknown
}

// Runners hand a context to the test, as an argument or as `this`, and skip through it. The rest parameter keeps the
// function's length at 0: jest and mocha take a longer one for a test that calls back, and never end.
function testOf(
  contractCase: ContractCase,
  newBackend: NewBackend,
  options: SuiteOptions,
  state: SuiteState,
): () => Promise<void> {
  return async function run(this: unknown, ...args: unknown[]): Promise<void> {
    const outcome = await runCase(contractCase, newBackend, options, state)
    if (outcome.status === 'failed') throw outcome.error
    if (outcome.status === 'passed') return
    const context = [args[0], this].find((value) => typeof (value as Skippable | undefined)?.skip === 'function')
    const reason = outcome.reason ?? 'not applicable'
    if (context !== undefined) (context as Required<Skippable>).skip(reason)
    else process.emitWarning(`skipped "${contractCase.name}": ${reason}`, 'ContractSkip')
  }
}
