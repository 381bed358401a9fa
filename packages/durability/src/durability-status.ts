import type { CommitGuard } from './commit/commit-guard.ts'
import type { TurnGate } from './outage/gate.ts'
import type { FailurePolicy } from './events/table.ts'
import type { OwnerVerdict } from './owner/owner-marker.ts'
import type { SessionOwner } from './owner/owner.ts'
import type { RecoveryWorker } from './outage/recovery.ts'
import type { SessionBlobs } from './blobs/session-blobs.ts'
import type { SnapshotOutcome } from './commit/snapshot-outcome.ts'
import type { SessionSnapshots } from './session-snapshots.ts'
import type { RunContext } from './run-context.ts'
import type { SharedRoots } from './shared/shared-roots.ts'
import type { SnapshotTrigger } from './layout/layout.ts'
import type { StoreLedger } from './outage/store-ledger.ts'

/** The durability side of a session, as it stands. */
export interface DurabilityStatus {
  backend: string
  failurePolicy: FailurePolicy
  /** Committed in the store as far as we know; 0 for nothing. */
  generation: number
  /** Snapshots tried in this run. */
  sequence: number
  lastSnapshot?: {
    trigger: SnapshotTrigger
    generation: number
    ok: boolean
    error?: string
    objects: number
    bytes: number
    durationMs: number
    /** RFC 3339. */
    startedAt: string
  }
  degraded: boolean
  /** RFC 3339. */
  degradedSince?: string
  /** The last failure of the outage. */
  reason?: string
  consecutiveFailures: number
  /** Input is refused now. */
  turnsBlocked: boolean
  /** Inputs refused in this run. */
  inputsRefused: number
  snapshotPending: boolean
  /**
   * Paths of the committed generation that a failed snapshot may have overwritten: until the next commit, a host that
   * resumes the session finds them newer than the commit (`session.hydrate.mixed`).
   */
  overwritten: readonly string[]
  queues: { writeThrough: number; retry: number; dropped: number }
  /** Another host committed, or another process took the lock: this run has ended. */
  lost: boolean
  /** The store could not be asked yet which tree is true. */
  undecided: boolean
  owner?: OwnerVerdict
  /** Keys of shared stores that are never overwritten, since this machine neither hydrated nor wrote them. */
  refusedShared: string[]
}

/** Whose state it is. */
export interface StatusParts {
  snapshots: SessionSnapshots
  ledger: StoreLedger
  gate: TurnGate
  recovery: RecoveryWorker
  blobs: SessionBlobs
  guard: CommitGuard
  owner: SessionOwner
  shared: SharedRoots
}

/** Reads the state of every part at this moment. */
export function durabilityStatus(run: RunContext, parts: StatusParts): DurabilityStatus {
  const { snapshots, ledger, gate, recovery, blobs, guard, owner, shared } = parts
  const { last } = ledger
  const outage = ledger.outage.state
  return {
    backend: run.backendName,
    failurePolicy: run.policy,
    generation: run.committed.current?.generation ?? 0,
    sequence: snapshots.sequence,
    ...(last === undefined ? {} : { lastSnapshot: snapshotStatus(last) }),
    degraded: outage !== undefined,
    ...(outage === undefined
      ? {}
      : { degradedSince: new Date(outage.sinceMs).toISOString(), reason: outage.lastError.message }),
    consecutiveFailures: outage?.consecutiveFailures ?? 0,
    turnsBlocked: gate.closed || run.fence.isLost,
    inputsRefused: gate.refusedCount,
    snapshotPending: recovery.snapshotOwed,
    overwritten: snapshots.overwritten,
    queues: { writeThrough: blobs.queued, retry: recovery.queued, dropped: recovery.dropped },
    lost: run.fence.isLost,
    undecided: guard.undecided,
    ...(owner.verdict === undefined ? {} : { owner: owner.verdict }),
    refusedShared: shared.refused,
  }
}

function snapshotStatus(last: SnapshotOutcome): NonNullable<DurabilityStatus['lastSnapshot']> {
  const { trigger, generation, error, result, durationMs, startedAtMs } = last
  return {
    trigger,
    generation,
    ok: error === undefined,
    ...(error === undefined ? {} : { error: error.message }),
    objects: result?.objects ?? 0,
    bytes: result?.bytes ?? 0,
    durationMs,
    startedAt: new Date(startedAtMs).toISOString(),
  }
}
