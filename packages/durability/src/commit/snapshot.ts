import type { JournalWriter } from '@nexus/journal'
import type { ObjectStore } from '@nexus/objectstore'
import type { StorageManager } from '@nexus/storage'
import type { Clock, Failpoint, Logger } from '@nexus/host'
import type { Manifest, MixedFrom } from '../mirror/manifest.ts'
import type { SnapshotMemory } from '../capture/memory.ts'
import { SnapshotRun } from './snapshot-run.ts'

/** What names a commit: no two commits share both. */
export interface CommitPair {
  generation: number
  nonce: string
}

/** What asked for a snapshot. */
export type SnapshotTrigger = 'turn' | 'request' | 'shutdown' | 'retry'

export interface SnapshotOptions {
  store: ObjectStore
  sessionId: string
  /** Absolute path of the session tree. */
  sessionDir: string
  /** Its parent, where the staging directory goes. */
  sessionsRoot: string
  /** The open journal. Absent once it is closed (final snapshot): its files are then taken as they are. */
  journal?: JournalWriter
  /** Copies databases, also after its `closeAll()`. */
  storage?: StorageManager
  /** The manifest the store holds now, as just read. Absent for a first snapshot. */
  committed?: Manifest
  /** Keep one per run and session; see {@link SnapshotMemory}. */
  memory?: SnapshotMemory
  generation: number
  nonce: string
  instanceId: string
  /** Counts the snapshots of this run from 1. */
  sequence: number
  trigger: SnapshotTrigger
  turnId?: string
  mixedFrom?: MixedFrom
  /** Called when everything but the manifest is durable; the manifest is put only after it resolved. */
  beforeCommit: (pair: CommitPair) => Promise<void>
  signal?: AbortSignal
  clock?: Clock
  logger?: Logger
  failpoint?: Failpoint
  /** Uploads in flight, default 16. */
  concurrency?: number
}

/** What one committed snapshot stored and what it cost. */
export interface SnapshotResult {
  /** What was committed. */
  manifest: Manifest
  /** Objects and bytes of the committed set. */
  objects: number
  bytes: number
  /** What this snapshot moved, the manifest and marker left out. */
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
 * Stores the session tree as one new generation. Rejects when the store fails or the signal fires, with the committed
 * generation still named by the manifest; a local file that can't be stored is listed in `unstored` instead.
 *
 * @see spec 60, Turn-boundary snapshot
 */
export async function takeSnapshot(options: SnapshotOptions): Promise<SnapshotResult> {
  return new SnapshotRun(options).take()
}
