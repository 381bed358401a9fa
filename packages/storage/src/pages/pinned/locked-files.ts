import { closeSync, fstatSync, openSync, readdirSync, readSync, statSync } from 'node:fs'
import type { FileIdentity } from '../../open/place.ts'
import { isSameFile } from '../../open/place.ts'

/** The first byte of the range that every connection to a WAL database keeps locked in the database file. */
const SHARED_BYTE = 0x4000_0002
/** The byte of `-shm` that is locked for as long as a connection of the process has it open. */
const IN_USE_BYTE = 128
const FDINFO_BYTES = 4096

/** SQLite's own descriptors of a database that is open in WAL mode, found by the locks that they carry. */
export interface LockedFiles {
  readonly database: number
  readonly shm: number
}

/**
 * What this process has of a database: SQLite's descriptors with its locks; `none` when it isn't open, or not in WAL mode;
 * `lost` when it is open and this process's locks are gone; `replaced` when its index isn't the file of that name.
 */
export type LockState = LockedFiles | 'none' | 'lost' | 'replaced'

function identityOf(path: string): FileIdentity | undefined {
  return statSync(path, { bigint: true, throwIfNoEntry: false })
}

function isOf(fd: number, identity: FileIdentity): boolean {
  try {
    // A number is looked at in a third of the time, and mostly tells another file already.
    return fstatSync(fd).ino === Number(identity.ino) && isSameFile(fstatSync(fd, { bigint: true }), identity)
  } catch {
    // Closed since it was listed.
    return false
  }
}

// Asked of the descriptor and not of /proc/locks, whose device and inode numbers are not those of stat on overlayfs and btrfs.
function holdsLock(fd: number, byte: number): boolean {
  const info = Buffer.alloc(FDINFO_BYTES)
  let text: string
  try {
    const infoFd = openSync(`/proc/self/fdinfo/${fd}`, 'r')
    try {
      text = info.toString('latin1', 0, readSync(infoFd, info, 0, FDINFO_BYTES, 0))
    } finally {
      closeSync(infoFd)
    }
  } catch {
    return false
  }
  const locks = text.matchAll(/^lock:.* POSIX .* (\d+) (\d+|EOF)$/gm)
  return [...locks].some(([, first, last]) => Number(first) <= byte && (last === 'EOF' || byte <= Number(last)))
}

/**
 * Whether both descriptors are still those of the database and its index, and carry their locks. A lock goes when *any*
 * descriptor of its file is closed, and doesn't come back while a connection is open: so a descriptor that carries one has not
 * been closed, nor its number used for something else.
 */
export function areLocked({ database, shm }: LockedFiles, path: string): boolean {
  const [file, index] = [identityOf(path), identityOf(`${path}-shm`)]
  return (
    file !== undefined &&
    index !== undefined &&
    isOf(database, file) &&
    isOf(shm, index) &&
    holdsLock(database, SHARED_BYTE) &&
    holdsLock(shm, IN_USE_BYTE)
  )
}

/** Looks through the descriptors of this process, worker threads' included. */
export function findLockedFiles(path: string): LockState {
  const [file, index] = [identityOf(path), identityOf(`${path}-shm`)]
  if (file === undefined) return 'none'
  const fds = readdirSync('/proc/self/fd').map(Number)
  const databases = fds.filter((fd) => isOf(fd, file))
  if (databases.length === 0 || index === undefined) return 'none'
  const indexes = fds.filter((fd) => isOf(fd, index))
  if (indexes.length === 0) return 'replaced'
  const database = databases.find((fd) => holdsLock(fd, SHARED_BYTE))
  const shm = indexes.find((fd) => holdsLock(fd, IN_USE_BYTE))
  return database === undefined || shm === undefined ? 'lost' : { database, shm }
}
