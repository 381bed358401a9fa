import { isNexusError } from '@nexus/errors'
import { plain } from './text.ts'

const DEEPEST = 8

/** One line that says what went wrong; with `verbose`, a line for each cause below it. */
export function failureLines(error: unknown, verbose: boolean): string[] {
  const lines = [plain(messageOf(error))]
  if (!verbose) return lines
  let cause = causeOf(error)
  for (let depth = 0; cause !== undefined && depth < DEEPEST; depth++) {
    const code = isNexusError(cause) ? `${cause.code} ${cause.op ?? ''}: ` : ''
    lines.push(`  because: ${code}${plain(messageOf(cause))}`)
    cause = causeOf(cause)
  }
  return lines
}

/** An error as `--json` gives it. */
export function failureJson(error: unknown): object {
  const known = isNexusError(error) ? { code: error.code, ...(error.key === undefined ? {} : { key: error.key }) } : {}
  return { error: { ...known, message: messageOf(error) } }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

function causeOf(error: unknown): unknown {
  return error instanceof Error ? error.cause : undefined
}
