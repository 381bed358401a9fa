import { type BigIntStats, lstatSync, mkdirSync } from 'node:fs'
import { isAbsolute, join, relative, sep } from 'node:path'
import { NexusError } from '@nexus/errors'
import type { JournalWriter } from '@nexus/journal'
import { type TreeCursor, fileFault } from '@nexus/host'
import type { DatabaseCapture } from './databases.ts'
import { readClosedJournalSeq } from './journal-seq.ts'
import { ACTIVE_SEGMENT_PATH, JOURNAL_DIR, JOURNAL_HEADER_PATH } from '../tree/names.ts'

/** A copy of our own to store under a path of the tree. */
export interface StagedFile {
  path: string
  localPath: string
  sizeBytes: number
  mode: number
  mtimeNs: bigint
}

/** The parts of a session that can't be read in place: they are copied first, and the copies are stored. */
export interface StagedParts {
  /** By session-relative path: the active journal segment and the databases. */
  files: Map<string, StagedFile>
  /** What the journal was at one instant. Undefined without an open journal. */
  journal: { sealed: ReadonlySet<string>; lastSeq: number } | undefined
  /** Open databases whose files were deleted. */
  lostDatabases: string[]
  /** The last event that is captured; 0 for none. */
  lastSeq: number
  dbBytes: number
  dbDurationMs: number
}

export interface StageOptions {
  sessionDir: string
  stagingDir: string
  cursor: TreeCursor
  journal?: JournalWriter
  databases: DatabaseCapture | undefined
  signal?: AbortSignal | undefined
}

const DEFAULT_MODE = 0o600
const OP = 'snapshot.stage'

/**
 * Takes the journal and every database of the run into the staging directory. The journal's snapshot is a barrier too, so
 * it holds the boundary that asked for this. A database that can't be copied fails the snapshot: there is no commit
 * without it. One whose file was deleted, emptied or replaced under its handle is lost, and what was committed of it is kept.
 */
export async function stageParts(options: StageOptions): Promise<StagedParts> {
  const { journal, databases } = options
  const parts: StagedParts = {
    files: new Map(),
    journal: undefined,
    lostDatabases: [],
    lastSeq: 0,
    dbBytes: 0,
    dbDurationMs: 0,
  }
  await Promise.all([
    journal === undefined ? undefined : stageJournal(journal, options, parts),
    databases === undefined ? undefined : stageDatabases(databases, options, parts),
  ])
  parts.lastSeq = parts.journal?.lastSeq ?? (await readClosedJournalSeq(join(options.sessionDir, JOURNAL_DIR)))
  return parts
}

async function stageJournal(journal: JournalWriter, options: StageOptions, parts: StagedParts): Promise<void> {
  const { sessionDir, stagingDir, cursor, signal } = options
  refuseReplacedJournal(cursor)
  const { sealed, active, lastSeq } = await journal.snapshot(stagingDir, { signal })
  // The writer goes by names: it may have read through a link that was there for a moment.
  refuseReplacedJournal(cursor)
  parts.journal = { sealed: new Set(sealed.map(({ name }) => name)), lastSeq }
  parts.files.set(
    ACTIVE_SEGMENT_PATH,
    staged(ACTIVE_SEGMENT_PATH, active.path, active.sizeBytes, join(sessionDir, ACTIVE_SEGMENT_PATH)),
  )
}

/**
 * Refuses to commit a session whose journal lies somewhere else, or not as files, than where a resume looks for it.
 *
 * @throws NexusError `CORRUPT` naming the path
 */
export function refuseReplacedJournal(cursor: TreeCursor): void {
  for (const path of [JOURNAL_HEADER_PATH, ACTIVE_SEGMENT_PATH]) {
    const found = inodeAt(cursor, path)
    // No journal opens without its header; a segment may have nothing in it yet.
    if (found !== undefined && (found.size > 0n || path !== JOURNAL_HEADER_PATH)) continue
    throw new NexusError(
      'CORRUPT',
      `${path} is gone or empty, or a link or a directory took its place or that of ${JOURNAL_DIR}: a commit could not be resumed. ` +
        'Put the journal back, or boot the session again to restore the committed tree',
      { op: OP, key: join(cursor.root, path) },
    )
  }
}

async function stageDatabases(databases: DatabaseCapture, options: StageOptions, parts: StagedParts): Promise<void> {
  const { sessionDir, stagingDir, cursor, signal } = options
  const before = new Map(
    databases
      .paths()
      .map((livePath) => [relativePath(sessionDir, livePath), inodeAt(cursor, relativePath(sessionDir, livePath))]),
  )
  if (before.size === 0) return
  const dir = join(stagingDir, 'databases')
  mkdirSync(dir, { mode: 0o700 })
  const startedMs = performance.now()
  for (const copy of await databases.copy(dir, signal)) {
    const path = relativePath(sessionDir, copy.livePath)
    const [was, is] = [before.get(path), inodeAt(cursor, path)]
    // SQLite opens by name: what it read counts only when the same file was there all along, reached through no link.
    if (was === undefined || is?.ino !== was.ino || is.dev !== was.dev) continue
    parts.files.set(path, staged(path, copy.snapshotPath, copy.sizeBytes, copy.livePath))
    parts.dbBytes += copy.sizeBytes
  }
  parts.lostDatabases = [...before.keys()].filter((path) => !parts.files.has(path))
  parts.dbDurationMs = performance.now() - startedMs
}

/** What is at a path when it is a regular file and reached through no link. Never opened: SQLite holds locks on it. */
export function inodeAt(cursor: TreeCursor, path: string): BigIntStats | undefined {
  cursor.reset()
  try {
    const stats = cursor.lstat(path)
    return stats?.isFile() === true ? stats : undefined
  } catch (error) {
    fileFault(error, OP, path)
    return undefined
  }
}

/** A copy that will be stored under the name, mode and time of its original. */
export function staged(path: string, localPath: string, sizeBytes: number, livePath: string): StagedFile {
  const live = lstatSync(livePath, { bigint: true, throwIfNoEntry: false })
  return {
    path,
    localPath,
    sizeBytes,
    mode: live === undefined ? DEFAULT_MODE : Number(live.mode & 0o777n),
    mtimeNs: live?.mtimeNs ?? BigInt(Date.now()) * 1_000_000n,
  }
}

function relativePath(sessionDir: string, livePath: string): string {
  const path = relative(sessionDir, livePath)
  if (path !== '' && !path.startsWith('..') && !isAbsolute(path)) return path.split(sep).join('/')
  throw new NexusError('INTERNAL', `the database ${livePath} is not inside the session ${sessionDir}`, {
    op: OP,
    key: livePath,
  })
}
