import { EXIT, type ExitCode } from '../exit-codes.ts'
import type { Context } from './context.ts'

/** What a command that destroys something is about to do. */
export interface Intention {
  /** One JSON value for programs, without `done`. */
  readonly value: object
  /** What would happen, a line each. */
  readonly lines: readonly string[]
}

/**
 * Shows what is going to happen, and does it only with `--yes`. Without it nothing is changed and the exit code is 3.
 *
 * @param act returns what is said when it is done
 */
export async function withConsent(
  context: Context,
  { value, lines }: Intention,
  act: () => Promise<string>,
): Promise<ExitCode> {
  if (!context.globals.yes) {
    context.result({ ...value, done: false }, () => [
      ...lines,
      context.style('yellow', 'Nothing was changed: --yes does it.'),
    ])
    return EXIT.refused
  }
  const said = await act()
  context.result({ ...value, done: true }, () => [...lines, context.style('green', said)])
  return EXIT.ok
}
