import { NexusError, type ErrorCode } from './nexus-error.ts'

const CODES: Readonly<Record<string, ErrorCode>> = {
  ENOENT: 'NOT_FOUND',
  EACCES: 'PERMISSION',
  EPERM: 'PERMISSION',
}

/** The `code` of a Node system error (`ENOENT`, `ENOSPC`, ...), or undefined for anything else. */
export function systemCode(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined
  const code: unknown = (error as NodeJS.ErrnoException).code
  return typeof code === 'string' ? code : undefined
}

/**
 * Wraps a failed local file operation: `ENOENT` becomes `NOT_FOUND`, `EACCES`/`EPERM` become `PERMISSION`, anything else
 * `LOCAL_IO`. The cause is kept.
 */
export function fromSystemError(error: unknown, op: string, path: string): NexusError {
  const system = systemCode(error)
  const code = (system !== undefined && CODES[system]) || 'LOCAL_IO'
  const detail = error instanceof Error ? error.message : String(error)
  return new NexusError(code, `${op} of ${path} failed: ${detail}`, { op, key: path, cause: error })
}
