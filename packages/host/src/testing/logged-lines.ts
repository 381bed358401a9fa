import type { Logger } from '../logger.ts'

/** One logged line. */
export interface LoggedLine {
  level: string
  fields: Record<string, unknown>
  message: string
}

/** A logger that keeps its lines. */
export function keepingLogger(): Required<Logger> & { lines: LoggedLine[] } {
  const lines: LoggedLine[] = []
  const at =
    (level: string) =>
    (fields: Record<string, unknown>, message: string): void =>
      void lines.push({ level, fields, message })
  return { lines, trace: at('trace'), debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
}
