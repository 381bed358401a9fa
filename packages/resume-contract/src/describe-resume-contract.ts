import { interruptedCommitCases } from './cases/interrupted-commit.ts'
import { killAndResumeCases } from './cases/kill-and-resume.ts'
import { storedObjectCases } from './cases/stored-objects.ts'
import { twoHostsCases } from './cases/two-hosts.ts'
import { ResumeLab, type ResumeCase } from './resume-case.ts'
import type { ResumeStore } from './resume-store.ts'

/** The runner's functions; the globals of vitest, node:test's and jest's fit. */
export interface ResumeRunner {
  describe: (title: string, define: () => void) => void
  /** The time limit is in milliseconds; runners that take none ignore it. */
  it: (title: string, run: () => Promise<void>, timeoutMs?: number) => void
}

/** Longest a case may take: it starts processes, kills them and resumes. */
const CASE_TIMEOUT_MS = 60_000

/** Every case of the suite, as data. */
export const resumeContractCases: readonly ResumeCase[] = [
  ...killAndResumeCases,
  ...storedObjectCases,
  ...interruptedCommitCases,
  ...twoHostsCases,
]

/**
 * Holds a store to the promise of the whole: a real engine works over it, is killed, and resumes on a host that has never
 * seen the session.
 *
 * @param runner default: the globals `describe` and `it`
 * @see docs/guides/writing-a-backend.md
 */
export function describeResumeContract(
  store: ResumeStore,
  runner: ResumeRunner = globalThis as unknown as ResumeRunner,
): void {
  if (typeof runner.describe !== 'function' || typeof runner.it !== 'function') {
    throw new TypeError(
      'describeResumeContract needs { describe, it } of a test runner: pass them, there are no globals',
    )
  }
  const how = store.crossProcess === true ? 'real SIGKILLs' : 'abandoned engines'
  runner.describe(`resume contract: ${store.name} (${how})`, () => {
    for (const each of resumeContractCases) {
      runner.it(
        each.name,
        async () => {
          const lab = await ResumeLab.open(store)
          try {
            await each.run(lab)
          } finally {
            await lab.close()
          }
        },
        CASE_TIMEOUT_MS,
      )
    }
  })
}
