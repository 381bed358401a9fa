import type { SnapshotTrigger } from '../layout/layout.ts'
import type { SharedResult } from '../shared/shared-roots.ts'
import type { SnapshotResult } from './snapshot.ts'

/** One wish for a snapshot. */
export interface SnapshotRequest {
  trigger: SnapshotTrigger
  turnId?: string
  reason?: string
  /** Store nothing when nothing but the session's own end has changed since the last commit. */
  onlyIfNew?: boolean
  /** Calls the snapshot off, unless somebody more urgent shares it. */
  signal?: AbortSignal | undefined
}

/** What became of one snapshot, for all requests that shared it. */
export interface SnapshotOutcome {
  trigger: SnapshotTrigger
  turnId: string | undefined
  reason: string | undefined
  /** Counts the snapshots of this run from 1. */
  sequence: number
  generation: number
  /** The bookkeeping of debts when it started. */
  mark: number
  startedAtMs: number
  durationMs: number
  result?: SnapshotResult
  shared?: SharedResult
  error?: Error
  /** It stopped by itself because a turn began: neither stored nor failed. */
  yielded: boolean
}
