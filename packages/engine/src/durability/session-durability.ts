import { join } from 'node:path'
import { isNexusError, NexusError } from '@nexus/errors'
import type { JournalWriter } from '@nexus/journal'
import type { ObjectStore } from '@nexus/objectstore'
import type { StorageManager } from '@nexus/storage'
import { systemClock, type Clock } from '../clock.ts'
import { noFailpoint, type Failpoint } from '../failpoint.ts'
import { silentLogger, type Logger } from '../logger.ts'
import { boundedSignal, raceSignal } from './bounded-signal.ts'
import { CommitGuard, type OnLostPolicy } from './commit-guard.ts'
import { CommittedGeneration } from './committed-generation.ts'
import { durabilityStatus, type DurabilityStatus } from './durability-status.ts'
import { defaultTimings, type DurabilityTimings } from './durability-timings.ts'
import { DURABILITY_SOURCE, EventOutbox, type DurabilityBus } from './event-outbox.ts'
import { TurnGate } from './gate.ts'
import { sessionKeys } from './keys.ts'
import { MachineRecordFile } from './machine-record.ts'
import type { Manifest } from './manifest.ts'
import { Outage, type FailurePolicy } from './outage.ts'
import { heartbeatAgeMs, type OwnerIdentity, type OwnerMarker } from './owner-marker.ts'
import { SessionOwner } from './owner.ts'
import { RecoveryWorker } from './recovery.ts'
import { resolveTree, type ResolveTreeOptions, type TreeResolution } from './resolve-tree.ts'
import { SessionBlobs } from './session-blobs.ts'
import { SessionSnapshots, type SessionParts, type SnapshotOutcome, type SnapshotRequest } from './session-snapshots.ts'
import { SharedRoots } from './shared-roots.ts'
import { logSnapshot, snapshotResultPayload } from './snapshot-report.ts'
import { SnapshotSlot } from './snapshot-slot.ts'
import type { SnapshotResult } from './snapshot.ts'
import { syncTree } from './sync-tree.ts'
import type { StaleLocalPolicy } from './tree-verdict.ts'
import { TurnTracker } from './turn-tracker.ts'

/** What {@link openSessionDurability} takes. */
export interface SessionDurabilityOptions {
  /** Owned from here on: closed by `finish` and `abandon`. */
  store: ObjectStore
  /** As configured; in events and logs. */
  backendName: string
  sessionId: string
  sessionsRoot: string
  /** Names bucket and prefix of the store, so that what a machine remembers of one isn't applied to another. */
  storeId: string
  storageRoot: string
  agentId?: string | undefined
  policy: FailurePolicy
  staleLocal: StaleLocalPolicy
  onLost: OnLostPolicy
  onMixed: 'warn' | 'fail'
  /** Unique to this run. */
  instanceId: string
  host: string
  pid: number
  /** The boot of this machine; see `machine-record.ts`. */
  bootId: string
  clock?: Clock
  /** In [0, 1); for jitter only. */
  random?: () => number
  logger?: Logger
  failpoint?: Failpoint
  timings?: Partial<DurabilityTimings>
}

/** The running parts of a session that {@link SessionDurability.attach} connects to. */
export interface AttachedSession {
  bus: DurabilityBus
  /** Used until {@link SessionDurability.finish}; by then it is closed. */
  journal?: JournalWriter
  storage?: StorageManager
}

export interface FinishOptions {
  /** The run ended well: take the final snapshot. False for a boot that failed. */
  clean: boolean
  /** Bounds all of it. Default 30 s. */
  timeoutMs?: number
}

const FINISH_MS = 30_000

/** Prepares everything; touches neither the disk nor the store. */
export function openSessionDurability(options: SessionDurabilityOptions): SessionDurability {
  return new SessionDurability(options)
}

/**
 * Keeps one session of one run in the object store.
 *
 * In order: {@link shared}`.hydrate()`, {@link resolveTree}, {@link claimOwner}, {@link attach}, {@link raiseDeferred};
 * then {@link onBoundary} and {@link snapshot} while it runs; then {@link detachInputs} first and {@link finish} last, or
 * {@link abandon}.
 *
 * @see spec 60
 */
export class SessionDurability {
  readonly shared: SharedRoots
  readonly #options: SessionDurabilityOptions & { clock: Clock; logger: Logger; failpoint: Failpoint }
  readonly #timings: DurabilityTimings
  readonly #outbox: EventOutbox
  readonly #gate = new TurnGate()
  readonly #outage: Outage
  readonly #record: MachineRecordFile
  readonly #committed: CommittedGeneration
  readonly #guard: CommitGuard
  readonly #owner: SessionOwner
  readonly #recovery: RecoveryWorker
  readonly #tracker: TurnTracker
  readonly #blobs: SessionBlobs
  readonly #snapshots: SessionSnapshots
  readonly #slot: SnapshotSlot<SnapshotRequest, SnapshotOutcome>
  readonly #life = new AbortController()
  #parts: SessionParts
  #bus: DurabilityBus | undefined
  #last: SnapshotOutcome | undefined
  #unreachable = false
  #ready = false
  #notedSegment = 0
  #detaching: Promise<void> | undefined
  #ending: Promise<void> | undefined

  constructor(options: SessionDurabilityOptions) {
    const { clock = systemClock, logger = silentLogger, failpoint = noFailpoint, random = Math.random } = options
    const { store, sessionId, sessionsRoot, bootId, policy, backendName } = options
    const timings = { ...defaultTimings, ...options.timings }
    const identity: OwnerIdentity = {
      host: options.host,
      pid: options.pid,
      instanceId: options.instanceId,
      processStartedAtMs: Date.now() - process.uptime() * 1000,
    }
    this.#options = { ...options, clock, logger, failpoint }
    this.#timings = timings
    this.#parts = { sessionDir: join(sessionsRoot, sessionId) }
    this.#outbox = new EventOutbox({ clock, logger, waitMs: timings.announceMs })
    this.#record = new MachineRecordFile(sessionsRoot, sessionId, { bootId, logger, failpoint })
    this.#committed = new CommittedGeneration(store, sessionId, sessionsRoot)
    this.#guard = new CommitGuard({
      sessionId,
      sessionsRoot,
      bootId,
      logger,
      staleLocal: options.staleLocal,
      onLost: options.onLost,
      record: this.#record,
      outbox: this.#outbox,
      onLoss: () => this.#lose(),
    })
    this.#outage = new Outage({
      sessionId,
      policy,
      clock,
      backend: backendName,
      gate: this.#gate,
      outbox: this.#outbox,
      debts: () => ({
        queuedPushes: this.#recovery.queued,
        droppedPushes: this.#recovery.dropped,
        snapshotPending: this.#recovery.snapshotOwed,
      }),
    })
    this.#owner = new SessionOwner({
      store,
      sessionId,
      sessionsRoot,
      identity,
      clock,
      logger,
      heartbeatMs: timings.heartbeatMs,
      staleMs: timings.ownerStaleMs,
      onConflict: (holder) => this.#conflict(holder),
    })
    this.shared = new SharedRoots({
      store,
      sessionId,
      clock,
      logger,
      failpoint,
      storageRoot: options.storageRoot,
      agentId: options.agentId,
      storeId: options.storeId,
      lockMs: timings.sharedLockMs,
      onUnreachable: (error) => this.#sharedUnreachable(error),
    })
    this.#blobs = new SessionBlobs({
      store,
      clock,
      logger,
      treePrefix: sessionKeys(sessionId).tree,
      sessionDir: this.#parts.sessionDir,
      committed: this.#committed,
      queueLimit: timings.writeThroughLimit,
      quietMs: timings.quietMs,
      troubles: {
        holdsBack: () => this.#outage.state !== undefined || this.#guard.undecided,
        isOver: () => this.#isEnding || this.#guard.lost !== undefined,
        pushFailed: (error) => this.#outage.failed(error, { endangersTurns: false }),
        flushFailed: (error) => this.#flushFailed(error),
        succeeded: () => this.#outage.succeeded(),
        defer: (push) => this.#recovery.owePush(push),
        announce: () => this.#outbox.flush(),
      },
    })
    this.#recovery = new RecoveryWorker({
      clock,
      random,
      logger,
      firstDelayMs: timings.retryFirstMs,
      maxDelayMs: timings.retryMaxMs,
      queueLimit: timings.retryQueueLimit,
      actions: {
        mayTakeSnapshot: () => this.#ready && this.#tracker.betweenTurns,
        takeSnapshot: async () => (await this.#slot.request({ trigger: 'retry' })).error === undefined,
        push: async (push, signal) => (await this.#blobs.push(push, signal)) !== 'failed',
        flush: (signal) => this.#blobs.flush(signal),
        repairShared: (signal) => this.#repairShared(signal),
        attempting: () => this.#outage.retried(),
        drained: (pushes) => this.#outage.drained(pushes),
        paid: async () => {
          this.#endOutage()
          await this.#outbox.flush()
        },
      },
    })
    this.#tracker = new TurnTracker({
      clock,
      settleMs: timings.inputSettleMs,
      onBegin: () => this.#snapshots.yieldRetry(),
    })
    this.#snapshots = new SessionSnapshots({
      store,
      sessionId,
      sessionsRoot,
      clock,
      logger,
      failpoint,
      instanceId: options.instanceId,
      record: this.#record,
      committed: this.#committed,
      parts: () => this.#parts,
      guard: (held) => this.#checkCommit(held),
      shared: (signal) => this.shared.snapshot(this.#parts.storage, signal),
      mark: () => this.#recovery.mark(),
    })
    this.#slot = new SnapshotSlot({
      run: async (batch) => this.#settle(await this.#snapshots.run(batch)),
      announce: () => this.#outbox.flush(),
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
   * A session that was generated just now can't be in the store: `fresh` spares the question.
   */
  async resolveTree(options: ResolveTreeOptions & { fresh?: boolean }): Promise<TreeResolution> {
    if (options.fresh === true) {
      await this.#record.begin({})
      return { tree: 'absent', undecided: false }
    }
    const { store, sessionId, sessionsRoot, bootId, staleLocal, onMixed, clock, logger, failpoint } = this.#options
    const resolution = await resolveTree(
      {
        store,
        sessionId,
        sessionsRoot,
        bootId,
        staleLocal,
        onMixed,
        clock,
        logger,
        failpoint,
        record: this.#record,
        committed: this.#committed,
        outbox: this.#outbox,
        onUnreachable: (error) => this.#treeUnreachable(error),
      },
      options,
    )
    if (resolution.undecided) this.#guard.postpone()
    return resolution
  }

  /** Reads the owner marker, judges it and writes ours. Never fails a boot; what it found is raised later. */
  async claimOwner(signal?: AbortSignal): Promise<void> {
    // The store was silent a moment ago: the first heartbeat claims, and boot doesn't wait for another deadline.
    if (this.#unreachable) return
    await this.#owner.claim(signal)
  }

  /**
   * Connects to the running session: gate, turn tracking, heartbeat, retries. The caller hooks {@link onBoundary} to
   * `agent.turn.end` and `session.snapshot.request`, to run after their handlers and after the journal has them.
   */
  attach({ bus, journal, storage }: AttachedSession): void {
    this.#bus = bus
    this.#parts = {
      sessionDir: this.#parts.sessionDir,
      ...(journal === undefined ? {} : { journal }),
      ...(storage === undefined ? {} : { storage }),
    }
    if (this.#options.policy === 'strict') this.#gate.attach(bus)
    this.#tracker.attach(bus)
    this.#owner.start()
  }

  /** Raises, once, what boot found: to be called when the journal runs and plugins are up. Retries begin. */
  async raiseDeferred(): Promise<void> {
    if (this.#bus === undefined || this.#ready || this.#isEnding) return
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
    if (this.#isEnding) throw this.#closedError()
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
    if (this.#bus === undefined || this.#isEnding) return
    const fields = (payload ?? {}) as { turn_id?: string; reason?: string }
    if (type === 'agent.turn.end') {
      this.#tracker.turnEnded(fields.turn_id)
      await this.#slot.request({ trigger: 'turn', ...(fields.turn_id === undefined ? {} : { turnId: fields.turn_id }) })
    } else {
      await this.#slot.request({
        trigger: 'request',
        ...(fields.reason === undefined ? {} : { reason: fields.reason }),
      })
    }
  }

  status(): DurabilityStatus {
    return durabilityStatus({
      options: this.#options,
      committed: this.#committed,
      snapshots: this.#snapshots,
      last: this.#last,
      outage: this.#outage.state,
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
    this.#detaching ??= this.#detachInputs()
    return this.#detaching
  }

  /**
   * Ends the run in the store: blobs on their way, final snapshot, owner marker, flush, close. To be called when plugins,
   * journal and databases are closed. Does nothing after {@link abandon}.
   *
   * @throws under `strict`, when everything is released, what the last snapshot or flush failed with
   */
  finish(options: FinishOptions): Promise<void> {
    this.#ending ??= this.#finish(options)
    return this.#ending
  }

  /** Drops the run: nothing is written any more, the owner marker stays. Bounded, never rejects. */
  abandon(): Promise<void> {
    this.#ending ??= this.#abandon()
    return this.#ending
  }

  get #isEnding(): boolean {
    return this.#ending !== undefined
  }

  /** The books after a snapshot, before the slot is free: events are posted here and go out when it is. */
  #settle(outcome: SnapshotOutcome): SnapshotOutcome {
    const { sessionId, logger } = this.#options
    const { error, mark } = outcome
    if (this.#life.signal.aborted) return outcome
    this.#last = outcome
    if (outcome.yielded) {
      logger.debug({ session_id: sessionId }, 'a retry gave way to a turn')
      return outcome
    }
    logSnapshot(logger, sessionId, outcome)
    this.#outbox.post('session.snapshot.result', snapshotResultPayload(sessionId, outcome))
    if (error === undefined) {
      this.#gate.open()
      this.#outage.succeeded()
      this.#recovery.snapshotStored(mark)
      this.#settleShared(outcome)
      this.#endOutage()
      return outcome
    }
    if (this.#options.policy === 'strict') {
      this.#outbox.post('core.error', {
        source: DURABILITY_SOURCE,
        error: error.message,
        fatal: false,
        retryable: isNexusError(error) && error.retryable,
      })
    }
    if (this.#guard.lost === undefined) this.#recovery.oweSnapshot()
    this.#outage.failed(error, { endangersTurns: true })
    return outcome
  }

  #settleShared({ shared, mark }: SnapshotOutcome): void {
    if (shared?.error !== undefined) {
      this.#options.logger.warn({ err: shared.error }, 'the shared stores could not be stored; the session is')
      this.#recovery.oweShared()
      this.#outage.failed(shared.error, { endangersTurns: false })
    } else if (this.shared.complete) this.#recovery.sharedStored(mark)
  }

  #endOutage(): void {
    const settled = !this.#recovery.owesAnything && !this.#guard.undecided && this.#guard.lost === undefined
    if (settled) this.#outage.over()
  }

  async #repairShared(signal: AbortSignal): Promise<boolean> {
    try {
      await this.shared.hydrate({ signal, again: true })
      const { error } = await this.shared.snapshot(this.#parts.storage, signal)
      if (error !== undefined) throw error
      this.#outage.succeeded()
      return true
    } catch (error) {
      if (!signal.aborted) {
        this.#options.logger.warn({ err: error }, 'the shared stores still can not be stored')
        this.#outage.failed(error as Error, { endangersTurns: false })
        await this.#outbox.flush()
      }
      return false
    }
  }

  async #checkCommit(held: Manifest | undefined): Promise<void> {
    await this.#guard.check(held)
    const segment = this.#committed.highestSealedSegment ?? 0
    if (segment <= this.#notedSegment) return
    this.#parts.journal?.noteCommittedSegment(segment)
    this.#notedSegment = segment
  }

  #treeUnreachable(error: Error): void {
    this.#unreachable = true
    this.#recovery.oweSnapshot()
    this.#outage.failed(error, { endangersTurns: true })
  }

  #sharedUnreachable(error: Error): void {
    this.#recovery.oweShared()
    this.#outage.failed(error, { endangersTurns: false })
  }

  #flushFailed(error: Error): void {
    this.#recovery.oweSnapshot()
    this.#outage.failed(error, { endangersTurns: false })
  }

  #lose(): void {
    this.#recovery.forgive()
    this.#blobs.discard()
    void this.#owner.stop()
  }

  #conflict(holder: OwnerMarker): void {
    const { sessionId, clock, host, pid, instanceId } = this.#options
    this.#outbox.post('session.owner.conflict', {
      session_id: sessionId,
      holder_host: holder.host,
      holder_pid: holder.pid,
      holder_instance_id: holder.instanceId,
      holder_heartbeat_at: holder.heartbeatAt,
      heartbeat_age_seconds: heartbeatAgeMs(holder, clock.now()) / 1000,
      local_host: host,
      local_pid: pid,
      local_instance_id: instanceId,
    })
    void this.#outbox.flush()
  }

  async #detachInputs(): Promise<void> {
    this.#gate.detach()
    this.#tracker.detach()
    this.#snapshots.yieldRetry()
    await this.#within('ending the background work of the session', this.#timings.drainMs, () =>
      Promise.all([this.#owner.stop(), this.#recovery.stop()]),
    )
  }

  async #finish({ clean, timeoutMs = FINISH_MS }: FinishOptions): Promise<void> {
    const { store, clock, policy, logger, sessionId } = this.#options
    const bound = boundedSignal('storing the end of the session', timeoutMs, clock)
    const { signal } = bound
    const failures: Error[] = []
    try {
      await this.detachInputs()
      await this.#within('uploading the last blobs', Math.min(this.#timings.drainMs, timeoutMs / 3), (limit) =>
        this.#blobs.drain(limit),
      )
      this.#blobs.discard()
      const stored = clean && (await this.#storeLast(signal, failures))
      if (this.#guard.lost === undefined) {
        await this.#owner.release(signal)
        await store.flush({ signal }).catch((error: Error) => failures.push(error))
      }
      await this.#endRecord(clean, stored, signal)
    } finally {
      bound.clear()
      this.#life.abort(new DOMException('the run ended', 'AbortError'))
      this.#snapshots.stop()
      this.#outbox.close()
      await this.#closeStore()
    }
    const [failure] = failures
    if (failure === undefined) return
    if (policy === 'strict' && clean) throw failure
    logger.warn({ err: failure, session_id: sessionId }, 'the end of the session is not stored; its local tree is')
  }

  /** The journal and the databases are closed by now, so their files are taken as they are. */
  async #storeLast(signal: AbortSignal, failures: Error[]): Promise<boolean> {
    const { storage, sessionDir } = this.#parts
    this.#parts = { sessionDir, ...(storage === undefined ? {} : { storage }) }
    try {
      const { error, result } = await raceSignal(this.#slot.request({ trigger: 'shutdown', signal }), signal)
      if (error !== undefined) throw error
      return result?.unstored.length === 0
    } catch (error) {
      failures.push(error as Error)
      return false
    }
  }

  async #endRecord(clean: boolean, stored: boolean, signal: AbortSignal): Promise<void> {
    try {
      if (!clean) return await this.#record.close()
      const synced = await raceSignal(syncTree(this.#parts.sessionDir, signal), signal).catch(() => false)
      await this.#record.end({ clean: synced, stored })
    } catch (error) {
      this.#options.logger.warn(
        { err: error },
        'how the session ended could not be noted; the next boot may restore it from the store',
      )
    }
  }

  async #abandon(): Promise<void> {
    this.#life.abort(new DOMException('the run was abandoned', 'AbortError'))
    this.#outbox.close()
    this.#snapshots.stop()
    this.#blobs.discard()
    await this.detachInputs()
    await this.#within('abandoning a snapshot', this.#timings.drainMs, () => this.#slot.idle())
    await this.#record.close()
    await this.#closeStore()
  }

  async #closeStore(): Promise<void> {
    await this.#within('closing the object store', this.#timings.closeMs, () => this.#options.store.close())
  }

  /** Runs bounded work whose failure is only worth a line. */
  async #within(what: string, limitMs: number, work: (signal: AbortSignal) => Promise<unknown>): Promise<void> {
    const bound = boundedSignal(what, limitMs, this.#options.clock)
    try {
      await raceSignal(work(bound.signal), bound.signal)
    } catch (error) {
      this.#options.logger.warn({ err: error, session_id: this.#options.sessionId }, `${what} failed`)
    } finally {
      bound.clear()
    }
  }

  #closedError(): NexusError {
    const { sessionId } = this.#options
    return new NexusError('CLOSED', `session ${sessionId} has ended; nothing more is stored`, {
      op: 'durability.snapshot',
      key: sessionId,
    })
  }
}
