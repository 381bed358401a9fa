import { realpathSync } from 'node:fs'
import { join } from 'node:path'
import { NexusError } from '@nexus/errors'
import { CommitGuard } from './commit-guard.ts'
import { CommittedGeneration } from './committed-generation.ts'
import { durabilityStatus, type DurabilityStatus } from './durability-status.ts'
import { defaultTimings, type DurabilityTimings } from './durability-timings.ts'
import { EventOutbox, type DurabilityBus } from './event-outbox.ts'
import { lookAtTree } from './local-tree.ts'
import { TurnGate } from './gate.ts'
import { sessionKeys } from './keys.ts'
import { MachineRecordFile } from './machine-record.ts'
import type { Manifest } from './manifest.ts'
import { ownerConflictPayload, type OwnerMarker } from './owner-marker.ts'
import { SessionOwner } from './owner.ts'
import { RecoveryWorker, type RecoveryActions } from './recovery.ts'
import { OwnershipWatch } from './ownership-watch.ts'
import { resolveTree, type ResolveTreeOptions, type TreeResolution } from './resolve-tree.ts'
import { SessionBlobs } from './session-blobs.ts'
import {
  settledOptions,
  type AttachedSession,
  type FinishOptions,
  type SessionDurabilityOptions,
  type SettledOptions,
} from './session-durability-options.ts'
import { SessionEnding } from './session-ending.ts'
import { SessionSnapshots, type SessionParts, type SnapshotOutcome, type SnapshotRequest } from './session-snapshots.ts'
import { SharedRoots } from './shared-roots.ts'
import { SnapshotSlot } from './snapshot-slot.ts'
import type { SnapshotResult } from './snapshot.ts'
import { StoreLedger } from './store-ledger.ts'
import { TurnTracker } from './turn-tracker.ts'

/** Prepares everything; touches neither the disk nor the store. */
export function openSessionDurability(options: SessionDurabilityOptions): SessionDurability {
  return new SessionDurability(options)
}

/**
 * Keeps one session of one run in the object store.
 *
 * In order: `shared.hydrate()`, {@link resolveTree}, {@link claimOwner}, {@link attach}, {@link raiseDeferred}; then
 * {@link onBoundary} and {@link snapshot} while it runs; then {@link detachInputs} first and {@link finish} last, or
 * {@link abandon}.
 *
 * @see spec 60
 */
export class SessionDurability {
  readonly shared: SharedRoots
  readonly #options: SettledOptions
  readonly #timings: DurabilityTimings
  readonly #outbox: EventOutbox
  readonly #gate = new TurnGate()
  readonly #record: MachineRecordFile
  readonly #committed: CommittedGeneration
  readonly #guard: CommitGuard
  readonly #owner: SessionOwner
  readonly #watch: OwnershipWatch
  readonly #recovery: RecoveryWorker
  readonly #ledger: StoreLedger
  readonly #tracker: TurnTracker
  readonly #blobs: SessionBlobs
  readonly #snapshots: SessionSnapshots
  readonly #slot: SnapshotSlot<SnapshotRequest, SnapshotOutcome>
  readonly #ending: SessionEnding
  #parts: SessionParts
  #bus: DurabilityBus | undefined
  #unreachable = false
  #ready = false
  #notedSegment = 0

  constructor(given: SessionDurabilityOptions) {
    const options = settledOptions(given)
    const { sessionId, sessionsRoot, storageRoot, storeId, agentId, instanceId } = options
    const { store, clock, random, logger, failpoint } = options
    const timings = { ...defaultTimings, ...options.timings }
    const common = { store, sessionId, sessionsRoot, clock, logger, failpoint }
    const sessionDir = join(sessionsRoot, sessionId)
    this.#options = options
    this.#timings = timings
    this.#parts = { sessionDir }
    const gate = this.#gate
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
    this.#outbox = outbox
    this.#record = record
    this.#committed = committed
    this.#guard = guard
    this.#recovery = recovery
    this.shared = new SharedRoots({
      ...common,
      storageRoot,
      storeId,
      agentId,
      lockMs: timings.sharedLockMs,
      onUnreachable: (error) => this.#ledger.sharedFailed(error),
    })
    this.#ledger = new StoreLedger({
      ...options,
      outbox,
      gate,
      guard,
      recovery,
      isSharedComplete: () => this.shared.complete,
    })
    this.#owner = new SessionOwner({
      ...common,
      identity: {
        host: options.host,
        pid: options.pid,
        instanceId,
        processStartedAtMs: Date.now() - process.uptime() * 1000,
      },
      confirm: (signal) => this.#watch.confirm(signal),
      heartbeatMs: timings.heartbeatMs,
      staleMs: timings.ownerStaleMs,
      onConflict: (holder) => this.#conflict(holder),
    })
    this.#watch = new OwnershipWatch({
      ...common,
      guard,
      maxAgeMs: 2 * timings.heartbeatMs,
      onLoss: (error) => void this.#ledger.ownershipLost(error),
    })
    this.#blobs = this.#openBlobs(sessionDir)
    this.#tracker = new TurnTracker({
      clock,
      settleMs: timings.inputSettleMs,
      onBegin: () => this.#snapshots.yieldRetry(),
    })
    this.#snapshots = new SessionSnapshots({
      ...common,
      instanceId,
      record,
      committed,
      parts: () => this.#parts,
      guard: (held) => this.#checkCommit(held),
      shared: (signal) => this.shared.snapshot(this.#parts.storage, signal),
      mark: () => recovery.mark(),
    })
    this.#slot = new SnapshotSlot({
      run: async (batch) => {
        const outcome = await this.#snapshots.run(batch)
        if (!this.#ending.abandoned) this.#ledger.snapshotTaken(outcome)
        return outcome
      },
      announce: () => outbox.flush(),
    })
    this.#ending = new SessionEnding({
      ...common,
      sessionDir,
      timings,
      outbox,
      gate,
      guard,
      recovery,
      record,
      policy: options.policy,
      tracker: this.#tracker,
      owner: this.#owner,
      blobs: this.#blobs,
      snapshots: this.#snapshots,
      slot: this.#slot,
      onJournalClosed: () => delete this.#parts.journal,
    })
  }

  /** What the session's blob store is to be opened with. */
  get blobHooks(): SessionBlobs['hooks'] {
    return this.#blobs.hooks
  }

  /** The highest sealed journal segment that a commit names: no number up to it may be used again. */
  get committedSegment(): number | undefined {
    return this.#committed.highestSealedSegment
  }

  /**
   * Settles which tree the session runs on; see {@link resolveTree}. To be called with the lock of an existing tree held.
   *
   * @param options `fresh`: the id was generated just now, so the store needn't be asked
   */
  async resolveTree(options: ResolveTreeOptions & { fresh?: boolean }): Promise<TreeResolution> {
    if (options.fresh === true) {
      await this.#record.begin({})
      return { tree: 'absent', undecided: false }
    }
    const resolution = await resolveTree(
      {
        ...this.#options,
        record: this.#record,
        committed: this.#committed,
        outbox: this.#outbox,
        onUnreachable: (error) => {
          this.#unreachable = true
          this.#ledger.treeUnreachable(error)
        },
      },
      options,
    )
    if (resolution.undecided) this.#guard.postpone(lookAtTree(this.#parts.sessionDir))
    return resolution
  }

  /** Reads the owner marker, judges it and writes ours. Never fails a boot; what it found is raised later. */
  async claimOwner(signal?: AbortSignal): Promise<void> {
    // The store was silent a moment ago: the first heartbeat claims, and boot doesn't wait for another deadline.
    if (!this.#unreachable) await this.#owner.claim(signal)
  }

  /**
   * Connects to the running session: gate, turn tracking, heartbeat. The caller hooks {@link onBoundary} to
   * `agent.turn.end` and `session.snapshot.request`, to run after their handlers and after the journal has them.
   */
  attach({ bus, journal, storage }: AttachedSession): void {
    this.#bus = bus
    // The workspace and its databases go by the path without links.
    this.#parts.sessionDir = realpathSync(this.#parts.sessionDir)
    if (journal !== undefined) this.#parts.journal = journal
    if (storage !== undefined) this.#parts.storage = storage
    if (this.#options.policy === 'strict') this.#gate.attach(bus)
    this.#tracker.attach(bus)
    this.#owner.start()
  }

  /** Raises, once, what boot found: to be called when the journal runs and plugins are up. Retries begin. */
  async raiseDeferred(): Promise<void> {
    if (this.#bus === undefined || this.#ready || this.#ending.begun) return
    this.#outbox.open(this.#bus)
    this.#ready = true
    await this.#outbox.flush()
  }

  /**
   * Stores the session; shared with whoever else asks before it starts. Resolves when it is durable.
   *
   * @throws the store's error, `FENCED` when another host committed, `CLOSED` after the end: under both policies
   */
  async snapshot(
    trigger: 'turn' | 'request',
    { reason, turnId }: { reason?: string; turnId?: string } = {},
  ): Promise<SnapshotResult> {
    if (this.#ending.begun) throw this.#closedError()
    const outcome = await this.#slot.request({
      trigger,
      ...(reason === undefined ? {} : { reason }),
      ...(turnId === undefined ? {} : { turnId }),
    })
    if (outcome.result === undefined) throw outcome.error ?? this.#closedError()
    return outcome.result
  }

  /** The hook of a boundary event: resolves when the snapshot is durable or has failed, which policy then deals with. */
  async onBoundary({ type, payload }: { readonly type: string; readonly payload: unknown }): Promise<void> {
    if (this.#bus === undefined || this.#ending.begun) return
    const { turn_id: turnId, reason } = (payload ?? {}) as { turn_id?: string; reason?: string }
    const isTurn = type === 'agent.turn.end'
    if (isTurn) this.#tracker.turnEnded(turnId)
    const request: SnapshotRequest = isTurn
      ? { trigger: 'turn', ...(turnId === undefined ? {} : { turnId }) }
      : { trigger: 'request', ...(reason === undefined ? {} : { reason }) }
    await this.#slot.request(request).catch((error: unknown) => {
      this.#options.logger.error({ err: error }, 'a snapshot failed in an unexpected way')
    })
  }

  status(): DurabilityStatus {
    return durabilityStatus({
      options: this.#options,
      committed: this.#committed,
      snapshots: this.#snapshots,
      ledger: this.#ledger,
      gate: this.#gate,
      recovery: this.#recovery,
      blobs: this.#blobs,
      guard: this.#guard,
      owner: this.#owner,
      shared: this.shared,
    })
  }

  /** Ends heartbeat, retries and the gate. First thing of a stop; bounded, never rejects, may be called again. */
  detachInputs(): Promise<void> {
    return this.#ending.detachInputs()
  }

  /**
   * Ends the run in the store: blobs on their way, final snapshot, owner marker, flush, close. To be called when plugins,
   * journal and databases are closed. Does nothing after {@link abandon}.
   *
   * @throws under `strict`, when everything is released, what the last snapshot or flush failed with
   */
  finish(options: FinishOptions): Promise<void> {
    return this.#ending.finish(options)
  }

  /** Drops the run: nothing is written any more, the owner marker stays. Bounded, never rejects. */
  abandon(): Promise<void> {
    return this.#ending.abandon()
  }

  #openBlobs(sessionDir: string): SessionBlobs {
    const { store, sessionId, clock, logger } = this.#options
    return new SessionBlobs({
      store,
      clock,
      logger,
      sessionDir,
      treePrefix: sessionKeys(sessionId).tree,
      committed: this.#committed,
      queueLimit: this.#timings.writeThroughLimit,
      quietMs: this.#timings.quietMs,
      troubles: {
        confirm: (signal) => this.#watch.confirmIfOld(signal),
        holdsBack: () => this.#ledger.outage.state !== undefined || this.#guard.undecided,
        isOver: () => this.#ending.begun || this.#guard.lost !== undefined,
        pushFailed: (error) => this.#ledger.pushFailed(error),
        flushFailed: (error) => this.#ledger.flushFailed(error),
        succeeded: () => this.#ledger.outage.succeeded(),
        defer: (push) => this.#recovery.owePush(push),
        announce: () => this.#outbox.flush(),
      },
    })
  }

  #recoveryActions(): RecoveryActions {
    return {
      mayTakeSnapshot: () => this.#ready && this.#tracker.betweenTurns,
      takeSnapshot: async () => (await this.#slot.request({ trigger: 'retry' })).error === undefined,
      push: async (push, signal) => (await this.#blobs.push(push, signal)) !== 'failed',
      flush: (signal) => this.#blobs.flush(signal),
      repairShared: (signal) => this.#repairShared(signal),
      attempting: () => this.#ledger.outage.retried(),
      drained: (pushes) => this.#ledger.outage.drained(pushes),
      paid: async () => {
        this.#ledger.settle()
        await this.#outbox.flush()
      },
    }
  }

  async #repairShared(signal: AbortSignal): Promise<boolean> {
    try {
      await this.shared.hydrate({ signal, again: true })
      const { error } = await this.shared.snapshot(this.#parts.storage, signal)
      if (error !== undefined) throw error
      this.#ledger.outage.succeeded()
      return true
    } catch (error) {
      if (signal.aborted) return false
      this.#options.logger.warn({ err: error }, 'the shared stores still can not be stored')
      this.#ledger.sharedFailed(error as Error)
      return false
    }
  }

  async #checkCommit(held: Manifest | undefined): Promise<void> {
    await this.#guard.check(held)
    this.#watch.noteConfirmed()
    const segment = this.#committed.highestSealedSegment ?? 0
    if (segment <= this.#notedSegment) return
    this.#parts.journal?.noteCommittedSegment(segment)
    this.#notedSegment = segment
  }

  /** Another host has the session: whatever would still write to the store ends. */
  #lose(): void {
    this.#recovery.forgive()
    this.#blobs.discard()
    void this.#owner.stop()
  }

  #conflict(holder: OwnerMarker): void {
    const { sessionId, clock } = this.#options
    const payload = ownerConflictPayload(holder, this.#options, { sessionId, nowMs: clock.now() })
    this.#outbox.post('session.owner.conflict', payload)
    void this.#outbox.flush()
  }

  #closedError(): NexusError {
    const { sessionId } = this.#options
    const message = `session ${sessionId} has ended; nothing more is stored`
    return new NexusError('CLOSED', message, { op: 'durability.snapshot', key: sessionId })
  }
}
