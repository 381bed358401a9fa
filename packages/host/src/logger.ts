/** Writes one structured log line: fields first, then the message, as pino does. */
export type LogLine = (fields: Record<string, unknown>, message: string) => void

/** What every package logs to; a pino logger fits as it is. Credentials never go in. */
export interface Logger {
  trace?: LogLine
  debug: LogLine
  info: LogLine
  warn: LogLine
  error: LogLine
}

const silent: LogLine = () => undefined

/** Drops every line. */
export const silentLogger: Required<Logger> = {
  trace: silent,
  debug: silent,
  info: silent,
  warn: silent,
  error: silent,
}
