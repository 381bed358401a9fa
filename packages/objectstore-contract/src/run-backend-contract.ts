import { backendContractCases } from './contract-cases.ts'
import { caseTitle } from './describe-backend-contract.ts'
import { type CaseOutcome, type NewBackend, runCase, type SuiteOptions, SuiteState } from './run-case.ts'

/** One line of a report. */
export interface CaseReport extends CaseOutcome {
  name: string
  rule: string
  why: string
}

/** How a backend did. */
export interface ContractReport {
  passed: number
  failed: number
  skipped: number
  durationMs: number
  cases: CaseReport[]
}

/** What {@link runBackendContract} takes besides what the suite may do. */
export interface RunOptions extends SuiteOptions {
  /** Called as each case ends. */
  onCase?: (report: CaseReport) => void
  /** Fires: no further case is started, and the promise rejects with the reason. */
  signal?: AbortSignal
}

/**
 * Runs the whole suite without a test runner, one case after the other, and reports. A failing case does not reject.
 */
export async function runBackendContract(newBackend: NewBackend, options: RunOptions = {}): Promise<ContractReport> {
  const report: ContractReport = { passed: 0, failed: 0, skipped: 0, durationMs: 0, cases: [] }
  const state = new SuiteState()
  for (const contractCase of backendContractCases) {
    options.signal?.throwIfAborted()
    const outcome = await runCase(contractCase, newBackend, options, state)
    const { rule, why } = contractCase
    const line: CaseReport = { name: caseTitle(contractCase, options), rule, why, ...outcome }
    report[outcome.status]++
    report.durationMs += outcome.durationMs
    report.cases.push(line)
    options.onCase?.(line)
  }
  return report
}
