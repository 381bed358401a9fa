import { join } from 'node:path'
import { CommitGuard } from './commit/commit-guard.ts'
import { CommittedGeneration } from './commit/committed-generation.ts'
import { defaultTimings, type DurabilityTimings } from './durability-timings.ts'
import { EventOutbox } from './outage/event-outbox.ts'
import { TurnGate } from './outage/gate.ts'
import { sessionKeys } from './tree/keys.ts'
import { MachineRecordFile } from './boot/machine-record.ts'
import type { Manifest } from './mirror/manifest.ts'
import { ownerConflictPayload, type OwnerMarker } from './owner/owner-marker.ts'
import { SessionOwner } from './owner/owner.ts'
import { OwnershipWatch } from './owner/ownership-watch.ts'
import { RecoveryWorker, type RecoveryActions } from './outage/recovery.ts'
import { SessionBlobs } from './blobs/session-blobs.ts'
import type { SettledOptions } from './session-durability-options.ts'
import { SessionEnding } from './end/session-ending.ts'
import {
  SessionSnapshots,
  type SessionParts,
  type SnapshotOutcome,
  type SnapshotRequest,
} from './commit/session-snapshots.ts'
import { SharedRoots } from './shared/shared-roots.ts'
import { SnapshotSlot } from './commit/snapshot-slot.ts'
import { StoreLedger } from './outage/store-ledger.ts'
import { TurnTracker } from './commit/turn-tracker.ts'

/** What the durability of one run is made of, and how one part hears of another. It decides nothing by itself. */
export class DurabilityParts {
  readonly options: SettledOptions
  readonly timings: DurabilityTimings
  /** What is open of the session: it grows when the run is attached, and shrinks at its end. */
  readonly session: SessionParts
  /** Plugins are up: retries may store what they find. */
  ready = false
  readonly shared: SharedRoots
  readonly outbox: EventOutbox
  readonly gate: TurnGate = new TurnGate()
  readonly record: MachineRecordFile
  readonly committed: CommittedGeneration
  readonly guard: CommitGuard
  readonly owner: SessionOwner
  readonly watch: OwnershipWatch
  readonly recovery: RecoveryWorker
  readonly ledger: StoreLedger
  readonly tracker: TurnTracker
  readonly blobs: SessionBlobs
  readonly snapshots: SessionSnapshots
  readonly slot: SnapshotSlot<SnapshotRequest, SnapshotOutcome>
  readonly ending: SessionEnding
  #notedSegment = 0

  constructor(options: SettledOptions) {
    const { sessionId, sessionsRoot, storageRoot, storeId, agentId, instanceId } = options
    const { store, clock, random, logger, failpoint } = options
    const timings = { ...defaultTimings, ...options.timings }
    const common = { store, sessionId, sessionsRoot, clock, logger, failpoint }
    const sessionDir = join(sessionsRoot, sessionId)
    this.options = options
    this.timings = timings
    this.session = { sessionDir }
    const gate = this.gate
    const outbox = new EventOutbox({ clock, logger, waitMs: timings.announceMs })
    const record = new MachineRecordFile(sessionsRoot, sessionId, options)
    const committed = new CommittedGeneration(store, sessionId, sessionsRoot)
    const guard = new CommitGuard({ ...options, record, outbox, onLoss: () => this.#lose() })
    const recovery = new RecoveryWorker({
      clock,
      random,
      logger,
      firstDelayMs: timings.retryFirstMs,
      maxDelayMs: timings.retryMaxMs,
      queueLimit: timings.retryQueueLimit,
      actions: this.#recoveryActions(),
    })
    this.outbox = outbox
    this.record = record
    this.committed = committed
    this.guard = guard
    this.recovery = recovery
    this.shared = new SharedRoots({
      ...common,
      storageRoot,
      storeId,
      agentId,
      lockMs: timings.sharedLockMs,
      onUnreachable: (error) => this.ledger.sharedFailed(error),
    })
    this.ledger = new StoreLedger({
      ...options,
      outbox,
      gate,
      guard,
      recovery,
      isSharedComplete: () => this.shared.complete,
    })
    this.owner = new SessionOwner({
      ...common,
      identity: {
        host: options.host,
        pid: options.pid,
        instanceId,
        processStartedAtMs: Date.now() - process.uptime() * 1000,
      },
      confirm: (signal) => this.watch.confirm(signal),
      heartbeatMs: timings.heartbeatMs,
      staleMs: timings.ownerStaleMs,
      onConflict: (holder) => this.#conflict(holder),
    })
    this.watch = new OwnershipWatch({
      ...common,
      guard,
      maxAgeMs: 2 * timings.heartbeatMs,
      onLoss: (error) => void this.ledger.ownershipLost(error),
    })
    this.blobs = this.#openBlobs(sessionDir)
    this.tracker = new TurnTracker({
      clock,
      settleMs: timings.inputSettleMs,
      onBegin: () => this.snapshots.yieldRetry(),
    })
    this.snapshots = new SessionSnapshots({
      ...common,
      instanceId,
      record,
      committed,
      parts: () => this.session,
      guard: (held) => this.#checkCommit(held),
      shared: (signal) => this.shared.snapshot(this.session.storage, signal),
      mark: () => recovery.mark(),
    })
    this.slot = new SnapshotSlot({
      run: async (batch) => {
        const outcome = await this.snapshots.run(batch)
        if (!this.ending.abandoned) this.ledger.snapshotTaken(outcome)
        return outcome
      },
      announce: () => outbox.flush(),
    })
    this.ending = new SessionEnding({
      ...common,
      sessionDir,
      timings,
      outbox,
      gate,
      guard,
      recovery,
      record,
      policy: options.policy,
      owner: this.owner,
      blobs: this.blobs,
      snapshots: this.snapshots,
      slot: this.slot,
      onJournalClosed: () => delete this.session.journal,
    })
  }

  #openBlobs(sessionDir: string): SessionBlobs {
    const { store, sessionId, clock, logger } = this.options
    return new SessionBlobs({
      store,
      clock,
      logger,
      sessionDir,
      treePrefix: sessionKeys(sessionId).tree,
      committed: this.committed,
      queueLimit: this.timings.writeThroughLimit,
      quietMs: this.timings.quietMs,
      troubles: {
        confirm: (signal) => this.watch.confirmIfOld(signal),
        holdsBack: () => this.ledger.outage.state !== undefined || this.guard.undecided,
        isOver: () => this.ending.begun || this.guard.lost !== undefined,
        pushFailed: (error) => this.ledger.pushFailed(error),
        flushFailed: (error) => this.ledger.flushFailed(error),
        succeeded: () => this.ledger.outage.succeeded(),
        defer: (push) => this.recovery.owePush(push),
        announce: () => this.outbox.flush(),
      },
    })
  }

  #recoveryActions(): RecoveryActions {
    return {
      mayTakeSnapshot: () => this.ready && this.tracker.betweenTurns,
      takeSnapshot: async () => (await this.slot.request({ trigger: 'retry' })).error === undefined,
      push: async (push, signal) => (await this.blobs.push(push, signal)) !== 'failed',
      flush: (signal) => this.blobs.flush(signal),
      repairShared: (signal) => this.#repairShared(signal),
      attempting: () => this.ledger.outage.retried(),
      drained: (pushes) => this.ledger.outage.drained(pushes),
      paid: async () => {
        this.ledger.settle()
        await this.outbox.flush()
      },
    }
  }

  async #repairShared(signal: AbortSignal): Promise<boolean> {
    try {
      await this.shared.hydrate({ signal, again: true })
      const { error } = await this.shared.snapshot(this.session.storage, signal)
      if (error !== undefined) throw error
      this.ledger.outage.succeeded()
      return true
    } catch (error) {
      if (signal.aborted) return false
      this.options.logger.warn({ err: error }, 'the shared stores still can not be stored')
      this.ledger.sharedFailed(error as Error)
      return false
    }
  }

  async #checkCommit(held: Manifest | undefined): Promise<void> {
    await this.guard.check(held)
    this.watch.noteConfirmed()
    const segment = this.committed.highestSealedSegment ?? 0
    if (segment <= this.#notedSegment) return
    this.session.journal?.noteCommittedSegment(segment)
    this.#notedSegment = segment
  }

  /** Another host has the session: whatever would still write to the store ends. */
  #lose(): void {
    this.recovery.forgive()
    this.blobs.discard()
    void this.owner.stop()
  }

  #conflict(holder: OwnerMarker): void {
    const { sessionId, clock } = this.options
    const payload = ownerConflictPayload(holder, this.options, { sessionId, nowMs: clock.now() })
    this.outbox.post('session.owner.conflict', payload)
    void this.outbox.flush()
  }
}
