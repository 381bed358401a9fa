/** The command line is wrong; the message says how and nothing was touched. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}
