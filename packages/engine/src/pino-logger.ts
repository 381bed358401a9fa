import type { LogLevel } from './config/engine-config.ts'
import type { Logger } from '@nexus/host'

/** Where and how much a logger writes. */
export interface PinoLoggerOptions {
  /** File descriptor; default 2, standard error. */
  fd?: number
}

/**
 * Makes the logger that an engine uses when none was handed to it: JSON lines on standard error, each written before the
 * call returns, so that a process that exits or is killed right after has lost none. pino is loaded here and not at
 * import.
 */
export async function createPinoLogger(level: LogLevel, options: PinoLoggerOptions = {}): Promise<Logger> {
  const { pino } = await import('pino')
  const logger: Logger = pino(
    { level, base: { pid: process.pid } },
    pino.destination({ fd: options.fd ?? 2, sync: true }),
  )
  return logger
}
