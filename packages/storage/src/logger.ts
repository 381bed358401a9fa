type LogLine = (fields: Record<string, unknown>, message: string) => void

/** What the manager logs to: fields first, then the message, as pino does. */
export interface Logger {
  trace?: LogLine
  debug: LogLine
  info: LogLine
  warn: LogLine
  error: LogLine
}

const silent: LogLine = () => undefined

/** Drops every line. */
export const silentLogger: Logger = { debug: silent, info: silent, warn: silent, error: silent }
