import type { Copier, CopyJob } from '../copy/copier.ts'
import type { CopyOutcome } from '../copy/copy-task.ts'

// Between two of these the event loop gets a turn.
const SLICE_MS = 4

/** How one job ended. */
export type JobResult =
  | { readonly ok: true; readonly outcome: CopyOutcome; readonly durationMs: number }
  | { readonly ok: false; readonly error: unknown }

async function runJob(copier: Copier, job: CopyJob, signal: AbortSignal | undefined): Promise<JobResult> {
  const startedMs = performance.now()
  try {
    const outcome = await copier.run(job, signal)
    return { ok: true, outcome, durationMs: performance.now() - startedMs }
  } catch (error) {
    return { ok: false, error }
  }
}

/**
 * Runs jobs and waits for all of them, failed or not. What goes to the worker is sent there first; what is small is done on
 * this thread meanwhile, in slices.
 *
 * @returns one result per job, in the order of the jobs
 */
export async function runJobs(
  copier: Copier,
  jobs: readonly CopyJob[],
  signal: AbortSignal | undefined,
): Promise<JobResult[]> {
  const results = new Map<CopyJob, Promise<JobResult>>()
  for (const job of jobs) if (!copier.isInline(job)) results.set(job, runJob(copier, job, signal))
  let sliceStartMs = performance.now()
  for (const job of jobs) {
    if (results.has(job)) continue
    if (performance.now() - sliceStartMs > SLICE_MS) {
      await new Promise((resolve) => setImmediate(resolve))
      sliceStartMs = performance.now()
    }
    results.set(job, runJob(copier, job, signal))
  }
  return Promise.all(jobs.map((job) => results.get(job) as Promise<JobResult>))
}
