import { closeSync, constants, lstatSync, openSync, readSync } from 'node:fs'
import { basename } from 'node:path'
import { NexusError, systemCode } from '@nexus/errors'
import type { HeldDirectory } from '@nexus/host'
import { explainWay, holdDirectoryOf, type Place } from '../open/place.ts'

/** The file is no SQLite database, so it is to be copied byte by byte. Code `UNSUPPORTED`. */
export class NotADatabaseError extends NexusError {
  readonly path: string

  constructor(path: string, reason: string, cause?: unknown) {
    super('UNSUPPORTED', `${path} is no SQLite database (${reason}): copy it as a plain file`, {
      op: 'storage.snapshotForeign',
      key: path,
      cause,
    })
    this.name = 'NotADatabaseError'
    this.path = path
  }
}

const HEADER_BYTES = 8
const JOURNAL_MAGIC = Buffer.from([0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7])
const WAL_MAGIC = new Set([0x377f0682, 0x377f0683])
const SHM_REGION_BYTES = 32_768
const SHM_FRESH_BYTES = 3

function headOf(path: string): Buffer {
  const head = Buffer.alloc(HEADER_BYTES)
  const fd = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  try {
    return head.subarray(0, readSync(fd, head, 0, HEADER_BYTES, 0))
  } finally {
    closeSync(fd)
  }
}

// No lock of SQLite is on the journal or the WAL, so those may be opened; the database and its -shm may not. A journal that
// starts with a zero is one that was not synced yet, or is over: it is never rolled back.
function isJournal(path: string): boolean {
  const head = headOf(path)
  return head.length === 0 || head[0] === 0 || head.subarray(0, JOURNAL_MAGIC.length).equals(JOURNAL_MAGIC)
}

function isWal(path: string): boolean {
  const head = headOf(path)
  return head.length === 0 || (head.length >= 4 && WAL_MAGIC.has(head.readUInt32BE(0)))
}

function isShm(path: string): boolean {
  const { size } = lstatSync(path)
  return size % SHM_REGION_BYTES === 0 || size === SHM_FRESH_BYTES
}

const SIDECARS: readonly (readonly [suffix: string, isSqlite: (path: string) => boolean])[] = [
  ['-journal', isJournal],
  ['-wal', isWal],
  ['-shm', isShm],
]

// Journals come and go with every transaction.
function plausible(path: string, isSqlite: (path: string) => boolean): boolean {
  try {
    return isSqlite(path)
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return true
    throw error
  }
}

/** What was found by looking at a file from outside. */
export type ForeignLook = 'empty' | 'database'

/**
 * Looks at a file that has a name beside it like a sidecar of SQLite, without opening it.
 *
 * Names alone prove nothing, and SQLite trusts them: it deletes `notes-wal` when `notes` is empty, rolls "back" and deletes
 * `notes-journal`, truncates `notes-shm`. So a sidecar that SQLite can't have written means that the file isn't opened.
 *
 * @returns `empty` for a file of no bytes, which is copied without opening it; else `database`, which SQLite may still deny
 * @throws NotADatabaseError; NexusError `NOT_FOUND`, `PRECONDITION` for a link on the way, `PERMISSION`, `LOCAL_IO`
 */
export function inspectForeign(place: Place): ForeignLook {
  const { path } = place
  let held: HeldDirectory | undefined
  try {
    held = holdDirectoryOf(place)
    const at = held.at(basename(path))
    const stat = lstatSync(at)
    if (!stat.isFile()) throw new NotADatabaseError(path, 'it is not a regular file')
    for (const [suffix, isSqlite] of SIDECARS) {
      const sidecar = lstatSync(at + suffix, { throwIfNoEntry: false })
      if (sidecar === undefined) continue
      if (!sidecar.isFile() || !plausible(at + suffix, isSqlite)) {
        throw new NotADatabaseError(path, `${suffix} beside it is not SQLite's`)
      }
    }
    return stat.size === 0 ? 'empty' : 'database'
  } catch (error) {
    if (error instanceof NexusError) throw error
    throw explainWay(error, place, `The snapshot of ${path}`)
  } finally {
    held?.close()
  }
}
