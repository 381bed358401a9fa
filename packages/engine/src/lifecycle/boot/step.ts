import type { Failpoint, Logger } from '@nexus/host'

/** One step of a boot: takes at most one thing, and knows how to give it back. */
export interface BootStep<Context> {
  /** Kebab-case; `boot:<name>` is the failpoint behind the step. */
  name: string
  /** A step that fails has taken nothing. */
  run(context: Context): void | Promise<void>
  /** Gives back what `run` took. Called when a later step failed. */
  undo?(context: Context): void | Promise<void>
}

/**
 * Runs the steps in order. When one fails, what the ones before it took is given back, newest first; a failure of that is
 * logged and doesn't keep the others from it.
 *
 * @throws what the step failed with
 */
export async function runSteps<Context>(
  steps: readonly BootStep<Context>[],
  context: Context,
  { logger, failpoint }: { logger: Logger; failpoint: Failpoint },
): Promise<void> {
  const done: BootStep<Context>[] = []
  try {
    for (const step of steps) {
      await step.run(context)
      done.push(step)
      await failpoint(`boot:${step.name}`)
    }
  } catch (error) {
    for (const step of done.toReversed()) {
      try {
        await step.undo?.(context)
      } catch (failure) {
        logger.warn({ err: failure, step: step.name }, 'a failed boot could not give back what it took')
      }
    }
    throw error
  }
}
