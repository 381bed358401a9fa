import { join } from 'node:path'
import { NexusError } from '@nexus/errors'
import type { JournalWriter } from '@nexus/journal'
import type { StorageManager } from '@nexus/storage'
import {
  type Clock,
  type Failpoint,
  type Logger,
  noFailpoint,
  silentLogger,
  Slices,
  TreeCursor,
  sharedDigester,
} from '@nexus/host'
import { holdsNothingNew } from './nothing-new.ts'
import { copiesOf } from '../capture/databases.ts'
import { SnapshotMemory } from '../capture/memory.ts'
import { refuseReplacedJournal, stageParts, type StagedParts } from '../capture/stage.ts'
import { JOURNAL_DIR } from '../tree/names.ts'
import { validateSessionId } from '../tree/session-id.ts'
import { createStagingDir, fromLocalFailure, removeStagingDir } from '../tree/staging.ts'
import { totalBytes, type Committed, type CommitHead, type CommitPair, type MixedFrom } from '../tree/committed.ts'
import type { CapturedTree, CommitFence, Layout, LayoutCommit } from '../layout/layout.ts'

/** What a session's tree is captured with. */
export interface CaptureOptions {
  sessionId: string
  /** Absolute path of the session tree. */
  sessionDir: string
  /** Its parent, where the staging directory goes. */
  sessionsRoot: string
  /** The open journal. Absent once it is closed (final snapshot): its files are then taken as they are. */
  journal?: JournalWriter
  /** Copies databases, also after its `closeAll()`. */
  storage?: StorageManager
  /** The commit that the store holds now, as just read. Absent for a first snapshot. */
  committed?: Committed
  /** Keep one per run and session; see {@link SnapshotMemory}. */
  memory?: SnapshotMemory
  generation: number
  nonce: string
  instanceId: string
  /** Counts the snapshots of this run from 1. */
  sequence: number
  trigger: CapturedTree['trigger']
  turnId?: string
  mixedFrom?: MixedFrom
  signal?: AbortSignal | undefined
  clock?: Clock
  logger?: Logger
  failpoint?: Failpoint
  /** Uploads in flight, default 16. */
  concurrency?: number
}

export interface SnapshotOptions extends CaptureOptions {
  layout: Layout
  /** Called when everything else is durable; the commit follows only after it resolved. */
  beforeCommit: (pair: CommitPair) => Promise<void>
  /** Store nothing when the tree holds nothing that the committed one lacks but the words of its own end. */
  onlyIfNew?: boolean
  /**
   * Asked before each put that replaces something of the committed generation: rejects when another host has committed
   * since. May go by a look that is younger than `ageMs`. Default: passes.
   */
  confirm?: (ageMs: number) => Promise<void>
  /** Called when another host's commit has the number of this one. Default: rejects with `FENCED`. */
  lost?: CommitFence['lost']
}

/** What one committed snapshot stored and what it cost. */
export interface SnapshotResult {
  /** What was committed. */
  committed: Committed
  /** Objects and bytes of the committed set. */
  objects: number
  bytes: number
  /** What this snapshot moved, what describes the commit left out. */
  objectsUploaded: number
  bytesUploaded: number
  /** What the store held already. */
  objectsSkipped: number
  bytesSkipped: number
  dbBytes: number
  dbDurationMs: number
  manifestBytes: number
  /** Paths that could not be stored: unreadable, or no possible key. The committed version, if any, stays named. */
  unstored: string[]
  durationMs: number
}

/**
 * Stores the session tree as one new generation. Rejects when the store fails or the signal fires, with the commit
 * before still in force; a local file that can't be stored is listed in `unstored` instead.
 *
 * @see docs/concepts/durability.md
 */
export async function takeSnapshot(options: SnapshotOptions): Promise<SnapshotResult> {
  return await staging(options, (cursor, stagingDir) => captureAndCommit(options, cursor, stagingDir))
}

/** Captures a tree in which nobody works; what is made of it is the caller's. */
export async function captureTree<T>(options: CaptureOptions, use: (captured: CapturedTree) => Promise<T>): Promise<T> {
  return await staging(options, async (cursor, stagingDir) => {
    const capture: Captured = { cursor, stagingDir, committed: undefined, databases: undefined }
    const parts = stage(options, capture)
    const using = use(capturedTree(options, capture, parts, new Slices({ signal: options.signal })))
    // Whoever uses it may fail before it asks for the parts, which are still being staged then.
    await Promise.allSettled([using, parts])
    return await using
  })
}

async function staging<T>(
  options: CaptureOptions,
  work: (cursor: TreeCursor, stagingDir: string) => Promise<T>,
): Promise<T> {
  const { sessionsRoot, signal, logger = silentLogger } = options
  const sessionId = validateSessionId(options.sessionId)
  signal?.throwIfAborted()
  const cursor = new TreeCursor(options.sessionDir)
  const stagingDir = createStagingDir(sessionsRoot, 'snapshot', sessionId)
  try {
    return await work(cursor, stagingDir)
  } catch (error) {
    throw fromLocalFailure(error, 'snapshot')
  } finally {
    cursor.close()
    await removeStagingDir(stagingDir).catch((error: unknown) => {
      logger.warn({ err: error, path: stagingDir }, 'a staging directory could not be removed; a later boot will')
    })
  }
}

/** Failpoints of a snapshot, in the order it passes them; `object-stored` is passed once per object. */
export const SNAPSHOT_FAILPOINTS: readonly string[] = [
  'snapshot:staging-made',
  'snapshot:staged',
  'snapshot:walked',
  'snapshot:listed',
  'snapshot:object-stored',
  'snapshot:before-overwriting',
  'snapshot:objects-stored',
  'snapshot:objects-flushed',
  'snapshot:before-manifest',
  'snapshot:manifest-put',
  'snapshot:manifest-flushed',
  'snapshot:marker-put',
  'snapshot:marker-flushed',
]

const DEFAULT_CONCURRENCY = 16

/** Takes the parts of a session that can't be read in place, and refuses to go on over a journal that was lost. */
async function stage(options: CaptureOptions, capture: Captured): Promise<StagedParts> {
  const { sessionId, sessionDir, committed } = options
  const parts = await stageParts({ ...options, ...capture })
  if (committed === undefined || committed.journal.last_seq === 0) return parts
  if (parts.lastSeq > 0) {
    refuseReplacedJournal(capture.cursor)
    return parts
  }
  throw new NexusError(
    'CORRUPT',
    `session ${sessionId}: its journal is gone, and the committed one ends at event ${committed.journal.last_seq}; not storing ` +
      'over it. Boot the session again to restore the committed tree',
    { op: 'snapshot', key: join(sessionDir, JOURNAL_DIR) },
  )
}

type Captured = Pick<CapturedTree, 'cursor' | 'stagingDir' | 'committed' | 'databases'>

async function captureAndCommit(
  options: SnapshotOptions,
  cursor: TreeCursor,
  stagingDir: string,
): Promise<SnapshotResult> {
  const { layout, storage, committed } = options
  const { failpoint = noFailpoint, confirm = async () => undefined } = options
  const { logger = silentLogger } = options
  await failpoint('snapshot:staging-made')
  const startedMs = performance.now()
  const slices = new Slices({ signal: options.signal })
  const databases = storage === undefined ? undefined : copiesOf(storage)
  const capture: Captured = { cursor, stagingDir, committed, databases }
  const parts = stage(options, capture)
  if (committed !== undefined && options.onlyIfNew === true) {
    const staged = await parts
    const closing = { cursor, staged: staged.files, committed, digester: sharedDigester(logger), slices }
    if (await holdsNothingNew(closing)) {
      const nothing = { objectsUploaded: 0, bytesUploaded: 0, manifestBytes: 0 }
      const size = { objects: committed.objects.length, bytes: await totalBytes(committed, slices) }
      return resultOf({ committed, ...size, ...nothing }, staged, startedMs)
    }
  }
  const { sessionDir, beforeCommit, signal } = options
  const committing = layout.commit(capturedTree(options, capture, parts, slices), {
    signal,
    beforeCommit,
    confirm,
    lost: options.lost ?? ((winner) => refuseLost(sessionDir, winner)),
  })
  // A commit may fail before it asks for the parts: they are still being staged then, in a directory that is about to go.
  await Promise.allSettled([committing, parts])
  return resultOf(await committing, await parts, startedMs)
}

function capturedTree(
  options: CaptureOptions,
  capture: Captured,
  parts: Promise<StagedParts>,
  slices: Slices,
): CapturedTree {
  const { generation, nonce, instanceId, sequence, trigger, turnId, sessionDir, mixedFrom } = options
  const { memory = new SnapshotMemory(), concurrency = DEFAULT_CONCURRENCY } = options
  const about = { generation, nonce, instanceId, sequence, trigger, turnId, sessionDir, mixedFrom }
  return { ...capture, ...about, parts, memory, slices, concurrency }
}

function refuseLost(sessionDir: string, winner: CommitHead | undefined): never {
  const who = winner === undefined ? 'another host' : `instance ${winner.instanceId}, generation ${winner.generation}`
  throw new NexusError('FENCED', `${sessionDir} was committed by ${who} meanwhile`, { op: 'snapshot', key: sessionDir })
}

function resultOf(commit: LayoutCommit, parts: StagedParts, startedMs: number): SnapshotResult {
  const { committed, objects, bytes, objectsUploaded, bytesUploaded } = commit
  return {
    ...commit,
    objectsSkipped: objects - objectsUploaded,
    bytesSkipped: bytes - bytesUploaded,
    dbBytes: parts.dbBytes,
    dbDurationMs: parts.dbDurationMs,
    unstored: committed.unstored,
    durationMs: performance.now() - startedMs,
  }
}
