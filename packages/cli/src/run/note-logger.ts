import type { Logger, LogLine } from '@nexus/engine'
import type { Output } from '../output.ts'

const ignore: LogLine = () => undefined

/** Warnings and errors as lines for a person; what one error says is said once, whoever passes it on. */
export function noteLogger(output: Output): Logger {
  const told = new WeakSet<object>()
  const at =
    (level: string): LogLine =>
    (fields, message) => {
      const error = (fields as { err?: unknown }).err
      if (typeof error === 'object' && error !== null) {
        if (told.has(error)) return
        told.add(error)
      }
      output.note(`${level}: ${message}${error instanceof Error ? `: ${error.message}` : ''}`)
    }
  return { trace: ignore, debug: ignore, info: ignore, warn: at('warning'), error: at('error') }
}
