import { realpathSync } from 'node:fs'
import type { JournalWriter } from '@nexus/journal'
import type { StorageManager } from '@nexus/storage'
import { Deadline, raceSignal } from '@nexus/host'
import { SessionBlobs } from './blobs/session-blobs.ts'
import { probeCreates } from './boot/create-probe.ts'
import { probeStore } from './boot/store-probe.ts'
import { resolveTree, type TreeResolution } from './boot/resolve-tree.ts'
import { CommitGuard } from './commit/commit-guard.ts'
import type { SnapshotOutcome, SnapshotRequest } from './commit/snapshot-outcome.ts'
import { SessionSnapshots } from './session-snapshots.ts'
import type { SnapshotResult } from './commit/snapshot.ts'
import { SnapshotSlot } from './commit/snapshot-slot.ts'
import { TurnTracker } from './commit/turn-tracker.ts'
import { SessionEnding, type FinishOptions } from './end/session-ending.ts'
import type { Tell } from './events/table.ts'
import { durabilityStatus, type DurabilityStatus } from './durability-status.ts'
import { TurnGate } from './outage/gate.ts'
import { RecoveryWorker, type RecoveryActions } from './outage/recovery.ts'
import { StoreLedger } from './outage/store-ledger.ts'
import { identityOf, refuseOwnerAtBoot } from './owner/live-owner.ts'
import { ownerConflictPayload } from './owner/owner-marker.ts'
import { SessionOwner } from './owner/owner.ts'
import { openRun, type RunContext, type SessionDurabilityOptions } from './run-context.ts'
import { bootChain, type SessionTree, type SessionTreeOptions } from './session-boot.ts'
import { SharedRoots } from './shared/shared-roots.ts'
import { refuseChain } from './versioned/refuse-chain.ts'

export type { FinishOptions }

/** The running parts of a session. */
export interface AttachedSession {
  tell: Tell
  /** Not used any more by the final snapshot: by then it is closed. */
  journal?: JournalWriter
  /** Used to the end: its snapshots work after `closeAll`. */
  storage?: StorageManager
}

/** How long a commit is waited for. It goes on for those who share it when its caller stops waiting. */
export interface CommitOptions {
  /** Why it is taken; in logs. */
  reason?: string
  signal?: AbortSignal | undefined
  /** Default: as long as it takes; every call to the store has a limit of its own. */
  timeoutMs?: number
}

/** Prepares everything; touches neither the disk nor the store. */
export function openSessionDurability(options: SessionDurabilityOptions): SessionDurability {
  return new SessionDurability(options)
}

/**
 * Keeps one session of one run in the object store.
 *
 * In order: {@link probeStore}, `shared.hydrate()`, `resolveTree`, {@link claimOwner}, {@link attach},
 * {@link raiseDeferred}; then {@link onBoundary} and {@link snapshot} while it runs; then {@link detachInputs} first and
 * {@link finish} last, or {@link abandon}. When the run's fence falls, everything on its way ends, and what is left to tell goes out.
 *
 * @see docs/concepts/durability.md
 */
export class SessionDurability {
  readonly shared: SharedRoots
  readonly #run: RunContext
  readonly #gate = new TurnGate()
  readonly #guard: CommitGuard
  readonly #tracker: TurnTracker
  readonly #recovery: RecoveryWorker
  readonly #ledger: StoreLedger
  readonly #owner: SessionOwner
  readonly #blobs: SessionBlobs
  readonly #snapshots: SessionSnapshots
  readonly #slot: SnapshotSlot<SnapshotRequest, SnapshotOutcome>
  readonly #ending: SessionEnding
  #tell: Tell | undefined
  /** Plugins are up: retries may store what they find. */
  #ready = false
  #unreachable = false

  constructor(options: SessionDurabilityOptions) {
    const run = openRun(options)
    const { clock, timings } = run
    this.#run = run
    this.shared = new SharedRoots({
      ...run,
      lockMs: timings.sharedLockMs,
      onForked: (key) => this.#tellForked(key),
      onUnreachable: (error) => this.#ledger.sharedFailed(error),
    })
    this.#guard = new CommitGuard(run)
    this.#tracker = new TurnTracker({
      clock,
      settleMs: timings.inputSettleMs,
      stallMs: timings.turnStallMs,
      position: () => run.journal?.lastSeq ?? 0,
    })
    this.#recovery = new RecoveryWorker({
      ...run,
      firstDelayMs: timings.retryFirstMs,
      maxDelayMs: timings.retryMaxMs,
      queueLimit: timings.retryQueueLimit,
      actions: this.#recoveryActions(),
    })
    this.#ledger = new StoreLedger(run, this.#gate, this.#guard, this.#recovery, () => this.shared.complete)
    this.#owner = this.#newOwner()
    this.#blobs = new SessionBlobs(run, { guard: this.#guard, ledger: this.#ledger, recovery: this.#recovery })
    this.#snapshots = new SessionSnapshots(run, {
      guard: this.#guard,
      tracker: this.#tracker,
      shared: this.shared,
      recovery: this.#recovery,
      ledger: this.#ledger,
    })
    this.#slot = new SnapshotSlot(this.#snapshots)
    this.#ending = new SessionEnding(run, {
      gate: this.#gate,
      owner: this.#owner,
      recovery: this.#recovery,
      blobs: this.#blobs,
      slot: this.#slot,
    })
    run.fence.signal.addEventListener('abort', () => this.#fenceFell(), { once: true })
  }

  /** What the session's blob store is to be opened with. */
  get blobHooks(): SessionBlobs['hooks'] {
    return this.#blobs.hooks
  }

  /** The highest sealed journal segment that a commit names: no number up to it may be used again. */
  get committedSegment(): number | undefined {
    return this.#run.committed.highestSealedSegment
  }

  /** Tries the store out, once for each store and machine; see {@link probeStore} and {@link probeCreates}. */
  async probeStore(): Promise<void> {
    await probeStore(this.#run)
    if (this.#run.layout.chain !== undefined) await probeCreates(this.#run)
  }

  /**
   * Settles which tree the session runs on, and claims the session for it where the layout can; see {@link resolveTree} and
   * {@link bootChain}. To be called with the lock of an existing tree held.
   *
   * @throws what those throw; what `createTree` throws
   */
  async resolveTree(options: SessionTreeOptions): Promise<SessionTree> {
    const { layout, claims } = this.#run
    const onUnreachable = (error: Error): void => {
      this.#unreachable = true
      this.#ledger.treeUnreachable(error)
    }
    if (layout.chain === undefined) return await this.#resolvePlain(options, onUnreachable)
    if (claims === 'if-free') await refuseOwnerAtBoot(this.#run, options.signal)
    const found = await bootChain(this.#run, layout.chain, options, onUnreachable)
    if (found.undecided !== undefined) this.#guard.postpone(found.undecided)
    // The claim holds what the store had: turns that only this tree has follow as soon as plugins are up.
    if (found.owesTurns === true) this.#recovery.oweSnapshot()
    return found
  }

  async #resolvePlain(options: SessionTreeOptions, onUnreachable: (error: Error) => void): Promise<SessionTree> {
    const { committed, store, sessionId, record } = this.#run
    let found: TreeResolution = { tree: 'absent' }
    if (options.fresh === true) await record.begin({})
    else {
      found = await resolveTree({ ...this.#run, onUnreachable }, options)
      if (found.undecided !== undefined) this.#guard.postpone(found.undecided)
      // Also where there is a mirror: a migration that was cut leaves both. Then a silent store has no say in it.
      const isNew = committed.current === undefined
      if (found.undecided === undefined) await refuseChain(store, sessionId, { isNew, signal: options.signal })
    }
    const { tree, ...rest } = found
    if (tree !== 'absent') return { tree, ...rest }
    await options.createTree()
    return { tree: 'created', ...rest }
  }

  /** Reads the owner marker, judges it and writes ours. Never fails a boot; what it found is raised later. */
  async claimOwner(signal?: AbortSignal): Promise<void> {
    // The store was silent a moment ago: the first heartbeat claims, and boot doesn't wait for another deadline.
    if (!this.#unreachable && this.#beats) await this.#owner.claim(signal)
  }

  /**
   * Connects to the running session; the heartbeat begins. The caller asks {@link refusal} before every input, tells
   * {@link inputCame} and {@link turnBegan} before their handlers run, and {@link onBoundary} of `agent.turn.end` and
   * `session.snapshot.request` after their handlers and after the journal has them.
   */
  attach({ tell, journal, storage }: AttachedSession): void {
    this.#tell = tell
    // The workspace and its databases go by the path without links.
    this.#run.sessionDir = realpathSync(this.#run.sessionDir)
    this.#run.journal = journal
    this.#run.storage = storage
    if (this.#beats) this.#owner.start()
  }

  /** Where a chain of commits tells whose the session is, a heartbeat is of use only to those who ask before they claim. */
  get #beats(): boolean {
    const { layout, claims } = this.#run
    return layout.chain === undefined || claims === 'if-free'
  }

  /**
   * Why the input that comes now is refused: the run lost its session, or, under `strict`, the last completed turn isn't
   * stored.
   */
  refusal(): string | undefined {
    const { fence, policy } = this.#run
    return fence.reason?.message ?? (policy === 'strict' ? this.#gate.judge() : undefined)
  }

  /** An input was accepted: a turn is about to begin. */
  inputCame(): void {
    this.#tracker.inputCame()
  }

  turnBegan(turnId: string | undefined): void {
    this.#tracker.turnBegan(turnId)
  }

  /** A turn has begun, or an input came, and no turn has ended since. */
  get withinTurn(): boolean {
    return !this.#tracker.betweenTurns
  }

  /** Raises, once, what boot found: to be called when the journal runs and plugins are up. Retries begin. */
  async raiseDeferred(): Promise<void> {
    if (this.#tell === undefined || this.#ready || this.#run.isEnding) return
    this.#run.outbox.open(this.#tell)
    this.#ready = true
    await this.#run.outbox.flush()
  }

  /**
   * Stores the session; shared with all that ask before it starts. Resolves when it is durable.
   *
   * @throws the store's error, why the fence fell (`FENCED`, `LOCKED`, `CLOSED`), `UNAVAILABLE` after `timeoutMs`, the
   *   signal's reason: under both policies
   */
  async snapshot(
    trigger: 'turn' | 'request',
    { reason, turnId, signal, timeoutMs }: CommitOptions & { turnId?: string } = {},
  ): Promise<SnapshotResult> {
    this.#run.fence.check()
    if (this.#run.isEnding) throw this.#ending.closedError()
    signal?.throwIfAborted()
    const request = this.#slot.request({
      trigger,
      ...(reason === undefined ? {} : { reason }),
      ...(turnId === undefined ? {} : { turnId }),
    })
    const { result, error } = await this.#wait(request, signal, timeoutMs)
    if (result === undefined) throw error ?? this.#run.fence.reason
    return result
  }

  async #wait<T>(work: Promise<T>, signal: AbortSignal | undefined, timeoutMs: number | undefined): Promise<T> {
    if (timeoutMs === undefined) return await (signal === undefined ? work : raceSignal(work, signal))
    const deadline = new Deadline('the commit', timeoutMs, this.#run.clock, signal)
    return await deadline.race(work).finally(() => deadline.clear())
  }

  /** The hook of a boundary event: resolves when the snapshot is durable or has failed, which policy then deals with. */
  readonly onBoundary = async ({
    type,
    payload,
  }: {
    readonly type: string
    readonly payload: unknown
  }): Promise<void> => {
    if (this.#tell === undefined || this.#run.isEnding || this.#run.fence.signal.aborted) return
    const { turn_id: turnId, reason } = (payload ?? {}) as { turn_id?: string; reason?: string }
    const isTurn = type === 'agent.turn.end'
    if (isTurn) this.#tracker.turnEnded(turnId)
    const request: SnapshotRequest = isTurn
      ? { trigger: 'turn', ...(turnId === undefined ? {} : { turnId }) }
      : { trigger: 'request', ...(reason === undefined ? {} : { reason }) }
    await this.#slot.request(request).catch((error: unknown) => {
      this.#run.logger.error({ err: error }, 'a snapshot failed in an unexpected way')
    })
  }

  status(): DurabilityStatus {
    return durabilityStatus(this.#run, {
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

  /** Resolves when a run whose fence fell has told what it had to tell. Bounded, never rejects. */
  async lastWords(): Promise<void> {
    await this.#slot.idle()
    await this.#run.outbox.settled()
  }

  /**
   * Ends heartbeat, retries and the gate. First thing of a stop; bounded, never rejects, may be called again.
   *
   * @param limitMs how long a store that doesn't let go is waited for
   */
  detachInputs(limitMs?: number): Promise<void> {
    return this.#ending.detachInputs(limitMs)
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

  #newOwner(): SessionOwner {
    const run = this.#run
    return new SessionOwner({
      ...run,
      identity: identityOf(run),
      heartbeatMs: run.timings.heartbeatMs,
      staleMs: run.timings.ownerStaleMs,
      confirm: (signal) => this.#guard.confirm(signal),
      onConflict: (holder) => {
        const payload = ownerConflictPayload(holder, run, { sessionId: run.sessionId, nowMs: run.clock.now() })
        run.outbox.post('session.owner.conflict', payload)
        void run.outbox.flush()
      },
    })
  }

  #recoveryActions(): RecoveryActions {
    return {
      mayTakeSnapshot: () => this.#ready && this.#tracker.betweenTurns,
      takeSnapshot: async (signal) => (await this.#slot.request({ trigger: 'retry', signal })).error === undefined,
      push: async (push, signal) => (await this.#blobs.push(push, signal)) !== 'failed',
      flush: (signal) => this.#blobs.flush(signal),
      repairShared: (signal) => this.#repairShared(AbortSignal.any([signal, this.#tracker.untilTurn()])),
      attempting: () => this.#ledger.outage.retried(),
      drained: (pushes) => this.#ledger.outage.drained(pushes),
      paid: async () => {
        this.#ledger.settle()
        await this.#run.outbox.flush()
      },
    }
  }

  async #repairShared(signal: AbortSignal): Promise<boolean> {
    try {
      await this.shared.hydrate({ signal, again: true })
      const { error } = await this.shared.snapshot(this.#run.storage, signal)
      if (error !== undefined) throw error
      this.#ledger.outage.succeeded()
      return true
    } catch (error) {
      if (signal.aborted) return false
      this.#run.logger.warn({ err: error }, 'the shared stores still can not be stored')
      this.#ledger.sharedFailed(error as Error)
      return false
    }
  }

  /** Whatever would still write to the store ends; snapshots end by the fence's signal. Misses of blobs are still repaired. */
  #fenceFell(): void {
    const { fence, outbox } = this.#run
    void this.#recovery.stop()
    void this.#owner.stop()
    this.#blobs.discard()
    if (!fence.isLost || fence.reason === undefined) return
    this.#ledger.lost(fence.reason)
    void outbox.flush()
  }

  /** The mirror layout has no generations of a shared store to name. */
  #tellForked(key: string): void {
    const { outbox, sessionId } = this.#run
    outbox.post('session.shared.lost', {
      session_id: sessionId,
      root: key,
      our_generation: 0,
      their_generation: 0,
      their_instance_id: '',
    })
  }
}
