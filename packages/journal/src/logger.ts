/** Writes one structured log line: fields first, then the message. */
export type LogLine = (fields: Record<string, unknown>, message: string) => void

/** What the journal logs to; a pino logger fits as it is. */
export interface Logger {
  debug: LogLine
  info: LogLine
  warn: LogLine
  error: LogLine
}

const silent: LogLine = () => undefined

/** Drops every line. */
export const silentLogger: Logger = { debug: silent, info: silent, warn: silent, error: silent }
