import { createHash } from 'node:crypto'
import nodeFs from 'node:fs'
import { fromSystemError, systemCode } from '@nexus/errors'
import type { ProcessIdentity } from '../process/process-identity.ts'

/** File name of the lock inside a session tree. */
export const LOCK_FILE = 'session.lock'

/** Who holds a session: what `session.lock` says, in snake_case there. */
export interface LockHolder extends ProcessIdentity {
  /** RFC 3339, UTC. */
  readonly startedAt: string
  /** What the process is, for people: `cli`, `embedded`, ... */
  readonly transport: string
}

/** A lock file as it was read. */
export interface LockFile {
  /** Undefined when the file is no lock record: empty, torn, or something else. */
  readonly holder: LockHolder | undefined
  /** The same for the same lock only: a new lock, or other garbage, has another one. */
  readonly identity: string
  readonly mtimeMs: number
  readonly inode: string
}

/** The part of `node:fs` that locking uses; tests hand in one that lacks something, or that lets others in between. */
export type LockFs = Pick<
  typeof nodeFs,
  | 'closeSync'
  | 'fstatSync'
  | 'linkSync'
  | 'lstatSync'
  | 'openSync'
  | 'readSync'
  | 'readdirSync'
  | 'renameSync'
  | 'unlinkSync'
  | 'writeSync'
>

const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = nodeFs.constants
const MAX_LOCK_BYTES = 64 * 1024

/** The bytes of a lock file. */
export function serializeHolder(holder: LockHolder): string {
  const { pid, pidStart, bootId, pidNamespace, thread, startedAt, transport } = holder
  const record = {
    pid,
    pid_start: pidStart,
    boot_id: bootId,
    pid_namespace: pidNamespace,
    ...(thread === undefined ? {} : { thread: thread.tid, thread_start: thread.start }),
    started_at: startedAt,
    transport,
  }
  return `${JSON.stringify(record)}\n`
}

/** Reads a lock file; undefined when there is none. Never follows a link, never blocks. */
export function readLockFile(path: string, fs: LockFs = nodeFs): LockFile | undefined {
  let fd: number
  try {
    fd = fs.openSync(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return undefined
    if (systemCode(error) !== 'ELOOP') throw fromSystemError(error, 'lock.read', path)
    const link = fs.lstatSync(path, { bigint: true, throwIfNoEntry: false })
    return link === undefined ? undefined : lockFile(Buffer.alloc(0), link)
  }
  try {
    const stats = fs.fstatSync(fd, { bigint: true })
    const bytes = Buffer.alloc(stats.isFile() ? Math.min(Number(stats.size), MAX_LOCK_BYTES) : 0)
    const read = bytes.byteLength === 0 ? 0 : fs.readSync(fd, bytes, 0, bytes.byteLength, 0)
    return lockFile(bytes.subarray(0, read), stats)
  } catch (error) {
    throw fromSystemError(error, 'lock.read', path)
  } finally {
    fs.closeSync(fd)
  }
}

interface LockStats {
  readonly dev: bigint
  readonly ino: bigint
  readonly mtimeMs: bigint
  readonly mtimeNs: bigint
}

function lockFile(bytes: Buffer, stats: LockStats): LockFile {
  const holder = parseHolder(bytes.toString('utf8'))
  const inode = `${stats.dev}:${stats.ino}`
  const hash = createHash('sha256').update(bytes)
  // A record names one process at one time, so equal bytes are the same lock. Garbage repeats itself.
  if (holder === undefined) hash.update(`${inode}:${stats.mtimeNs}`)
  return { holder, identity: hash.digest('hex').slice(0, 16), mtimeMs: Number(stats.mtimeMs), inode }
}

function parseHolder(text: string): LockHolder | undefined {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return undefined
  }
  if (typeof value !== 'object' || value === null) return undefined
  const record = value as Record<string, unknown>
  const { pid, pid_start: pidStart, boot_id: bootId, pid_namespace: pidNamespace } = record
  if (typeof pid !== 'number' || !Number.isSafeInteger(pid) || pid <= 0) return undefined
  if (typeof pidStart !== 'number' || typeof bootId !== 'string' || typeof pidNamespace !== 'string') return undefined
  const startedAt = typeof record['started_at'] === 'string' ? record['started_at'] : ''
  const transport = typeof record['transport'] === 'string' ? record['transport'] : ''
  const { thread: tid, thread_start: start } = record
  const thread = typeof tid === 'number' && typeof start === 'number' ? { thread: { tid, start } } : {}
  return { pid, pidStart, bootId, pidNamespace, ...thread, startedAt, transport }
}
