import nodeFs from 'node:fs'
import { dirname, join } from 'node:path'
import { fromSystemError, isNexusError, systemCode } from '@nexus/errors'
import { noFailpoint, type Failpoint } from '../failpoint.ts'
import { syncData, syncDirectory, writeFully } from './sync.ts'
import { engineTempName } from './temp-name.ts'

/** The part of `node:fs` that an atomic write uses; tests hand in one that fails. */
export type AtomicWriteFs = Pick<
  typeof nodeFs,
  | 'lstatSync'
  | 'openSync'
  | 'fchmodSync'
  | 'writeSync'
  | 'write'
  | 'fdatasync'
  | 'fsync'
  | 'closeSync'
  | 'renameSync'
  | 'unlinkSync'
>

/** How {@link atomicWriteFile} writes. */
export interface AtomicWriteOptions {
  /** Mode of the file, less the umask for a new one. Default: what the file had, 0600 for a new one. */
  mode?: number
  /** Sync the file before the rename and the directory after it. Default true. */
  fsync?: boolean | 'file-only'
  failpoint?: Failpoint
  fs?: AtomicWriteFs
}

/** What {@link atomicWriteFile} did. */
export interface AtomicWriteResult {
  /** Whether something was at the path before. */
  existed: boolean
  sizeBytes: number
}

/** Failpoints of an atomic write. */
export const ATOMIC_WRITE_FAILPOINTS: readonly string[] = [
  'atomic-write:opened',
  'atomic-write:written',
  'atomic-write:synced',
  'atomic-write:renamed',
]

const DEFAULT_MODE = 0o600

/**
 * Replaces a file as a whole: temp file in the same directory, fdatasync, rename, fsync of the directory. A reader sees
 * the old content or the new one, also after a crash.
 *
 * The order matters: data is synced before the rename, else power loss can leave the new name on an empty file; the
 * directory is synced after it, else power loss can bring back the old file. `fsync: 'file-only'` leaves out the second:
 * old or new, never torn, but which of them is decided when the caller syncs the directory.
 *
 * Nothing but a directory at `path` is refused; a link is replaced, not followed.
 *
 * @throws NexusError `LOCAL_IO`, `PERMISSION` or `NOT_FOUND` (no such directory); the old content is left, the temp file
 *   is removed
 */
export async function atomicWriteFile(
  path: string,
  data: string | Uint8Array,
  options: AtomicWriteOptions = {},
): Promise<AtomicWriteResult> {
  const { fsync = true, failpoint = noFailpoint, fs = nodeFs } = options
  const bytes = typeof data === 'string' ? Buffer.from(data, 'utf8') : data
  const temp = join(dirname(path), engineTempName())
  let fd: number | undefined
  let created = false
  try {
    const before = fs.lstatSync(path, { throwIfNoEntry: false })
    fd = fs.openSync(temp, 'wx', options.mode ?? DEFAULT_MODE)
    created = true
    await failpoint('atomic-write:opened')
    const mode = options.mode ?? (before?.isFile() === true ? before.mode & 0o777 : undefined)
    if (mode !== undefined && before !== undefined) fs.fchmodSync(fd, mode)
    await writeFully(fd, bytes, undefined, fs)
    await failpoint('atomic-write:written')
    if (fsync !== false) await syncData(fd, fs)
    await failpoint('atomic-write:synced')
    const open = fd
    fd = undefined
    fs.closeSync(open)
    fs.renameSync(temp, path)
    created = false
    await failpoint('atomic-write:renamed')
    if (fsync === true) await syncDirectory(dirname(path), fs)
    return { existed: before !== undefined, sizeBytes: bytes.byteLength }
  } catch (error) {
    if (fd !== undefined) quietly(() => fs.closeSync(fd as number))
    if (created) quietly(() => fs.unlinkSync(temp))
    throw isNexusError(error) || systemCode(error) === undefined ? error : fromSystemError(error, 'file.write', path)
  }
}

function quietly(cleanup: () => void): void {
  try {
    cleanup()
  } catch {
    // The failure that made us clean up is the one to report.
  }
}
