/** Writes one structured log line: fields first, then the message. */
export type LogLine = (fields: Record<string, unknown>, message: string) => void

/** What a driver may log to. A pino logger fits as it is. Credentials never go in. */
export interface Logger {
  trace?: LogLine
  debug: LogLine
  info: LogLine
  warn: LogLine
  error: LogLine
}
