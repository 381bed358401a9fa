import {
  fstatSync,
  linkSync,
  lstatSync,
  mkdirSync,
  openSync,
  closeSync,
  realpathSync,
  unlinkSync,
  type BigIntStats,
} from 'node:fs'
import { join, relative, sep } from 'node:path'
import { NexusError, systemCode } from '@nexus/errors'
import { engineTempName, holdDirectory, type HeldDirectory } from '@nexus/host'
import type { Connection } from './connection.ts'
import { explainSystemError } from './sqlite-error.ts'

/** Where a database is: SQLite opens files by path only, so the way to it is checked again once it is open. */
export interface Place {
  /** The directory from which on nothing on the way to the file may be a link. */
  readonly root: string
  /** The file, absolute, below `root`. */
  readonly path: string
}

/** Which file it is, whatever its name. */
export interface FileIdentity {
  readonly dev: bigint
  readonly ino: bigint
}

/** The way to a file as it was found, component by component through open directories, and the file. */
export interface Sighting {
  readonly directories: readonly BigIntStats[]
  /** Of whatever is there, not followed; undefined for nothing. */
  readonly file: BigIntStats | undefined
  /** The file's path with the links above the root resolved, which is how SQLite spells it. */
  readonly realPath: string
}

function namesBelow({ root, path }: Place): string[] {
  return relative(root, path).split(sep)
}

/** Opens the directory that the file is in. Throws the system error, `ENOTDIR` or `ELOOP` for a link or a file on the way. */
export function holdDirectoryOf(place: Place): HeldDirectory {
  return holdDirectory(place.root, namesBelow(place).slice(0, -1))
}

/**
 * Looks at a file without opening it, which would drop this process's locks on it.
 *
 * @param options `create` makes missing directories (0700) and the file (empty, 0600)
 * @throws the system error: `ENOTDIR` or `ELOOP` for a link or a file on the way
 */
export function lookAt(place: Place, { create = false }: { create?: boolean } = {}): Sighting {
  const names = namesBelow(place)
  const name = names.pop() as string
  const directories: BigIntStats[] = []
  const held = holdDirectory(place.root, names, {
    create,
    visit: (fd) => directories.push(fstatSync(fd, { bigint: true })),
  })
  try {
    const look = (): BigIntStats | undefined => lstatSync(held.at(name), { bigint: true, throwIfNoEntry: false })
    let file = look()
    if (file === undefined && create) {
      createEmpty(held.at(engineTempName()), held.at(name))
      file = look()
    }
    return { directories, file, realPath: join(realpathSync.native(place.root), ...names, name) }
  } finally {
    held.close()
  }
}

// SQLite would make it readable for others. Closing a descriptor of a database that another thread has connected would drop
// the locks of this process on it, so the file gets its name only after its descriptor is closed.
function createEmpty(temporary: string, path: string): void {
  closeSync(openSync(temporary, 'wx', 0o600))
  try {
    linkSync(temporary, path)
  } catch (error) {
    const code = systemCode(error)
    if (code === 'EEXIST') return
    if (code !== 'EPERM' && code !== 'ENOTSUP' && code !== 'EOPNOTSUPP' && code !== 'ENOSYS') throw error
    // A file system without hard links.
    createHere(path)
  } finally {
    unlinkSync(temporary)
  }
}

function createHere(path: string): void {
  try {
    closeSync(openSync(path, 'wx', 0o600))
  } catch (error) {
    if (systemCode(error) !== 'EEXIST') throw error
  }
}

/** Whether two sightings are of the same file. */
export function isSameFile(a: FileIdentity | undefined, b: FileIdentity | undefined): boolean {
  return a?.ino === b?.ino && a?.dev === b?.dev
}

// A directory's change time moves with every change of its entries, so a component that was swapped and swapped back shows.
// The last directory's moves with SQLite's own sidecars.
function isSameWay(a: Sighting, b: Sighting | undefined): boolean {
  return (
    b !== undefined &&
    isSameFile(a.file, b.file) &&
    a.realPath === b.realPath &&
    a.directories.every((directory, index) => {
      const other = b.directories[index]
      const isLast = index === a.directories.length - 1
      return isSameFile(directory, other) && (isLast || directory.ctimeNs === other?.ctimeNs)
    })
  )
}

const ATTEMPTS = 4

/** How {@link openAt} connects. */
export interface Opening {
  /** Makes the connection; the file exists. */
  readonly connect: () => Connection
  /** Reads from it, so that SQLite opens the sidecars. */
  readonly prepare: (db: Connection) => void
  /** Makes what is missing: directories (0700) and an empty file (0600). */
  readonly create?: boolean
}

/** A connection, and the file that it is to. */
export interface Opened {
  readonly db: Connection
  readonly file: BigIntStats
}

/**
 * Opens a database and proves that SQLite opened the file at that place. The way to it is looked at before SQLite opens it,
 * again before SQLite reads anything (a wrong file is let go of untouched, and the opening tried again), and again when the
 * sidecars are open; and SQLite says by which name, links resolved, it knows the file.
 *
 * @throws NexusError `PRECONDITION` when there is a link or no regular file, or when the way to it keeps changing;
 * `NOT_FOUND`; `LOCAL_IO`, `PERMISSION` for the disk; what `connect` and `prepare` throw
 */
export function openAt(place: Place, what: string, { connect, prepare, create = false }: Opening): Opened {
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    const before = sightingFor(place, what, create)
    const db = connect()
    const isThere = closingOnThrow(
      db,
      () => isKnownAs(db, before.realPath) && isSameWay(before, sightingNow(place, what)),
    )
    if (isThere) return finish(place, what, before, db, prepare)
    db.close()
  }
  throw refusal(place, what, 'the way to it changes while it is opened')
}

function finish(
  place: Place,
  what: string,
  before: Sighting,
  db: Connection,
  prepare: (db: Connection) => void,
): Opened {
  let failure: { error: unknown } | undefined
  try {
    prepare(db)
  } catch (error) {
    failure = { error }
  }
  const after = closingOnThrow(db, () => sightingNow(place, what))
  if (!isSameWay(before, after)) {
    keepOpen(db)
    throw refusal(place, what, 'the way to it changed while it was opened', failure?.error)
  }
  if (failure === undefined) return { db, file: after?.file as BigIntStats }
  db.close()
  throw failure.error
}

function closingOnThrow<T>(db: Connection, run: () => T): T {
  try {
    return run()
  } catch (error) {
    db.close()
    throw error
  }
}

const kept = new Set<Connection>()

/**
 * Leaves a connection open until the process ends, also when nothing refers to it any more: at the place where its files
 * were there are others, and closing it would delete their sidecars, which SQLite finds by name.
 */
export function keepOpen(db: Connection): void {
  kept.add(db)
}

function sightingNow(place: Place, what: string): Sighting | undefined {
  try {
    return lookAt(place)
  } catch (error) {
    const code = systemCode(error)
    if (code === 'ENOENT' || code === 'ENOTDIR' || code === 'ELOOP') return undefined
    throw explainWay(error, place, what)
  }
}

function isKnownAs(db: Connection, realPath: string): boolean {
  const rows = db.pragma('database_list') as { name: string; file: string }[]
  return rows.find(({ name }) => name === 'main')?.file === realPath
}

function sightingFor(place: Place, what: string, create = false): Sighting & { file: BigIntStats } {
  let seen: Sighting
  try {
    if (create) mkdirSync(place.root, { recursive: true, mode: 0o700 })
    seen = lookAt(place, { create })
  } catch (error) {
    throw explainWay(error, place, what)
  }
  if (seen.file === undefined) {
    throw new NexusError('NOT_FOUND', `${what} failed: there is no such file`, { op: 'storage.open', key: place.path })
  }
  if (!seen.file.isFile()) throw refusal(place, what, 'it is not a regular file')
  return { ...seen, file: seen.file }
}

/** Names what was in the way when a place could not be reached. */
export function explainWay(error: unknown, place: Place, what: string): NexusError {
  const code = systemCode(error)
  if (code !== 'ENOTDIR' && code !== 'ELOOP') return explainSystemError(error, 'storage.open', place.path)
  return refusal(place, what, 'what it is in is not a real directory', error)
}

function refusal({ path }: Place, what: string, why: string, cause?: unknown): NexusError {
  return new NexusError('PRECONDITION', `${what} failed: ${why}. Move what is in its place away`, {
    op: 'storage.open',
    key: path,
    cause,
  })
}
