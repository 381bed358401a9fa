import { fromSystemError, isNexusError, NexusError, systemCode, type ErrorCode } from '@nexus/errors'
import { exhaustedBy, probeExhaustion } from './exhaustion.ts'

/** SQLite's own name of a failure, such as `SQLITE_BUSY`, or undefined when the error isn't SQLite's. */
export function sqliteCode(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined
  const code: unknown = (error as Error & { code?: unknown }).code
  return typeof code === 'string' && code.startsWith('SQLITE_') ? code : undefined
}

/** Whether another connection holds a lock that this call would have had to wait for. */
export function isBusy(error: unknown): boolean {
  const code = sqliteCode(error)
  return code !== undefined && (code.startsWith('SQLITE_BUSY') || code.startsWith('SQLITE_LOCKED'))
}

/** An error like SQLite's own, for what it should have said. */
export function sqliteError(code: string, message: string): Error {
  return Object.assign(new Error(message), { code })
}

const CODES: readonly (readonly [prefix: string, code: ErrorCode, advice: string])[] = [
  ['SQLITE_NOTADB', 'CORRUPT', 'The file was left as it is: move it away, or put a good copy in its place'],
  ['SQLITE_CORRUPT', 'CORRUPT', 'The file was left as it is: move it away, or put a good copy in its place'],
  ['SQLITE_BUSY', 'LOCKED', 'Another connection holds its lock: end its transaction and try again'],
  ['SQLITE_LOCKED', 'LOCKED', 'Another connection holds its lock: end its transaction and try again'],
  ['SQLITE_NOMEM', 'LOCAL_IO', 'The machine is out of memory'],
  ['SQLITE_FULL', 'LOCAL_IO', 'The disk is full'],
  ['SQLITE_IOERR', 'LOCAL_IO', 'The disk reported an error'],
  ['SQLITE_CANTOPEN', 'LOCAL_IO', 'Check that the directory exists and may be written'],
  ['SQLITE_READONLY', 'PERMISSION', 'Check the modes of the file and its directory'],
  ['SQLITE_PERM', 'PERMISSION', 'Check the modes of the file and its directory'],
]

/**
 * Wraps a failure of SQLite once: `NOTADB`/`CORRUPT` become `CORRUPT`, `BUSY`/`LOCKED` become `LOCKED` (retryable),
 * `FULL`/`IOERR`/`CANTOPEN`/`NOMEM` become `LOCAL_IO`, `READONLY`/`PERM` become `PERMISSION`, anything else `INTERNAL`. System
 * errors are wrapped as such; a NexusError passes as it is. The cause is kept.
 *
 * @param what names the thing in the message, e.g. `The database of plugin a at /x/store.db`
 */
export function fromSqliteError(error: unknown, op: string, what: string, path: string): NexusError {
  if (isNexusError(error)) return error
  const raw = sqliteCode(error)
  if (raw === undefined && systemCode(error) !== undefined) return explainSystemError(error, op, path)
  const known = raw === undefined ? undefined : CODES.find(([prefix]) => raw.startsWith(prefix))
  const detail = error instanceof Error ? error.message : String(error)
  const advice = exhaustionBehind(error) ?? known?.[2]
  const message = `${what} failed: ${detail}${raw === undefined ? '' : ` (${raw})`}${advice === undefined ? '' : `. ${advice}`}`
  const code = known?.[1] ?? 'INTERNAL'
  return new NexusError(code, message, { op, key: path, retryable: code === 'LOCKED', cause: error })
}

/** `fromSystemError`, naming the limit when something has run out. */
export function explainSystemError(error: unknown, op: string, path: string): NexusError {
  const limit = exhaustedBy(systemCode(error))
  if (limit === undefined) return fromSystemError(error, op, path)
  return new NexusError('LOCAL_IO', `${op} of ${path} failed: ${limit}`, { op, key: path, cause: error })
}

/** An error of SQLite with what had run out when it happened, where that may be the reason. */
interface ExhaustedError extends Error {
  exhausted?: string
}

/** Notes on an error of SQLite, right after it was thrown, that nothing can be opened any more. */
export function noteExhaustion(error: unknown): string | undefined {
  if (!(error instanceof Error) || sqliteCode(error)?.startsWith('SQLITE_CANTOPEN') !== true) return undefined
  return ((error as ExhaustedError).exhausted ??= probeExhaustion() ?? '')
}

function exhaustionBehind(error: unknown): string | undefined {
  return noteExhaustion(error) || undefined
}

/** What a call gets that came too late, or was running, when the manager was disposed. */
export function closedError(path: string): NexusError {
  return new NexusError('CLOSED', 'The storage manager was disposed', { op: 'storage.snapshot', key: path })
}
