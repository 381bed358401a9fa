import { lstatSync, mkdirSync } from 'node:fs'
import { isAbsolute, join, relative, sep } from 'node:path'
import { NexusError } from '@nexus/errors'
import type { JournalWriter } from '@nexus/journal'
import type { StorageManager } from '@nexus/storage'
import type { StagedFile } from '../mirror/upload.ts'
import { JOURNAL_DIR } from '../tree/names.ts'

/** The parts of a session that can't be read in place: they are copied first, and the copies are stored. */
export interface StagedParts {
  /** By session-relative path: the active journal segment and the databases. */
  files: Map<string, StagedFile>
  /** What the journal was at one instant. Undefined without an open journal. */
  journal: { sealed: ReadonlySet<string>; lastSeq: number } | undefined
  /** Open databases whose files were deleted. */
  lostDatabases: string[]
  dbBytes: number
  dbDurationMs: number
}

export interface StageOptions {
  sessionDir: string
  stagingDir: string
  journal?: JournalWriter
  storage?: StorageManager
  signal?: AbortSignal
}

const DEFAULT_MODE = 0o600

/**
 * Takes the journal and every database of the run into the staging directory. The journal's snapshot is a barrier too, so
 * it holds the boundary that asked for this. A database that can't be copied fails the snapshot: there is no commit
 * without it. One whose file was deleted under its handle is gone, and what was committed of it is kept.
 */
export async function stageParts(options: StageOptions): Promise<StagedParts> {
  const { journal, storage } = options
  const parts: StagedParts = { files: new Map(), journal: undefined, lostDatabases: [], dbBytes: 0, dbDurationMs: 0 }
  await Promise.all([
    journal === undefined ? undefined : stageJournal(journal, options, parts),
    storage === undefined ? undefined : stageDatabases(storage, options, parts),
  ])
  return parts
}

async function stageJournal(journal: JournalWriter, options: StageOptions, parts: StagedParts): Promise<void> {
  const { sessionDir, stagingDir, signal } = options
  const { sealed, active, lastSeq } = await journal.snapshot(stagingDir, signal === undefined ? {} : { signal })
  parts.journal = { sealed: new Set(sealed.map(({ name }) => name)), lastSeq }
  const path = `${JOURNAL_DIR}/${active.name}`
  parts.files.set(path, staged(path, active.path, active.sizeBytes, join(sessionDir, path)))
}

async function stageDatabases(storage: StorageManager, options: StageOptions, parts: StagedParts): Promise<void> {
  const { sessionDir, stagingDir, signal } = options
  const open = storage.paths('session').map((livePath) => relativePath(sessionDir, livePath))
  if (open.length === 0) return
  const dir = join(stagingDir, 'databases')
  mkdirSync(dir, { mode: 0o700 })
  const startedMs = performance.now()
  for (const copy of await storage.snapshot('session', dir, signal === undefined ? {} : { signal })) {
    const path = relativePath(sessionDir, copy.livePath)
    parts.files.set(path, staged(path, copy.snapshotPath, copy.sizeBytes, copy.livePath))
    parts.dbBytes += copy.sizeBytes
  }
  parts.lostDatabases = open.filter((path) => !parts.files.has(path))
  parts.dbDurationMs = performance.now() - startedMs
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
    op: 'snapshot.stage',
    key: livePath,
  })
}
