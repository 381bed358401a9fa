import { realpathSync } from 'node:fs'
import { NexusError } from '@nexus/errors'
import { DurabilityParts } from './durability-parts.ts'
import { durabilityStatus, type DurabilityStatus } from './outage/durability-status.ts'
import type { Tell } from './events.ts'
import { resolveTree, type ResolveTreeOptions, type TreeResolution } from './boot/resolve-tree.ts'
import type { SessionBlobs } from './blobs/session-blobs.ts'
import {
  settledOptions,
  type AttachedSession,
  type FinishOptions,
  type SessionDurabilityOptions,
} from './session-durability-options.ts'
import type { SnapshotRequest } from './commit/session-snapshots.ts'
import type { SharedRoots } from './shared/shared-roots.ts'
import type { SnapshotResult } from './commit/snapshot.ts'

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
  readonly #parts: DurabilityParts
  #tell: Tell | undefined
  #unreachable = false

  constructor(options: SessionDurabilityOptions) {
    this.#parts = new DurabilityParts(settledOptions(options))
    this.shared = this.#parts.shared
  }

  /** What the session's blob store is to be opened with. */
  get blobHooks(): SessionBlobs['hooks'] {
    return this.#parts.blobs.hooks
  }

  /** The highest sealed journal segment that a commit names: no number up to it may be used again. */
  get committedSegment(): number | undefined {
    return this.#parts.committed.highestSealedSegment
  }

  /**
   * Settles which tree the session runs on; see {@link resolveTree}. To be called with the lock of an existing tree held.
   *
   * @param options `fresh`: the id was generated just now, so the store needn't be asked
   */
  async resolveTree(options: ResolveTreeOptions & { fresh?: boolean }): Promise<TreeResolution> {
    if (options.fresh === true) {
      await this.#parts.record.begin({})
      return { tree: 'absent' }
    }
    const resolution = await resolveTree(
      {
        ...this.#parts.options,
        record: this.#parts.record,
        committed: this.#parts.committed,
        outbox: this.#parts.outbox,
        onUnreachable: (error) => {
          this.#unreachable = true
          this.#parts.ledger.treeUnreachable(error)
        },
      },
      options,
    )
    if (resolution.undecided !== undefined) this.#parts.guard.postpone(resolution.undecided)
    return resolution
  }

  /** Reads the owner marker, judges it and writes ours. Never fails a boot; what it found is raised later. */
  async claimOwner(signal?: AbortSignal): Promise<void> {
    // The store was silent a moment ago: the first heartbeat claims, and boot doesn't wait for another deadline.
    if (!this.#unreachable) await this.#parts.owner.claim(signal)
  }

  /**
   * Connects to the running session; the heartbeat begins. The caller asks {@link refusal} before every input, tells
   * {@link inputCame} and {@link turnBegan} before their handlers run, and {@link onBoundary} of `agent.turn.end` and
   * `session.snapshot.request` after their handlers and after the journal has them.
   */
  attach({ tell, journal, storage }: AttachedSession): void {
    this.#tell = tell
    // The workspace and its databases go by the path without links.
    this.#parts.session.sessionDir = realpathSync(this.#parts.session.sessionDir)
    if (journal !== undefined) this.#parts.session.journal = journal
    if (storage !== undefined) this.#parts.session.storage = storage
    this.#parts.owner.start()
  }

  /** Why the input that comes now is refused: under `strict`, while the last completed turn isn't stored. */
  refusal(): string | undefined {
    return this.#parts.options.policy === 'strict' ? this.#parts.gate.judge() : undefined
  }

  /** An input was accepted: a turn is about to begin. */
  inputCame(): void {
    this.#parts.tracker.inputCame()
  }

  turnBegan(turnId: string | undefined): void {
    this.#parts.tracker.turnBegan(turnId)
  }

  /** A turn has begun, or an input came, and no turn has ended since. */
  get withinTurn(): boolean {
    return !this.#parts.tracker.betweenTurns
  }

  /** Raises, once, what boot found: to be called when the journal runs and plugins are up. Retries begin. */
  async raiseDeferred(): Promise<void> {
    if (this.#tell === undefined || this.#parts.ready || this.#parts.ending.begun) return
    this.#parts.outbox.open(this.#tell)
    this.#parts.ready = true
    await this.#parts.outbox.flush()
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
    if (this.#parts.ending.begun) throw this.#closedError()
    const outcome = await this.#parts.slot.request({
      trigger,
      ...(reason === undefined ? {} : { reason }),
      ...(turnId === undefined ? {} : { turnId }),
    })
    if (outcome.result === undefined) throw outcome.error ?? this.#closedError()
    return outcome.result
  }

  /** The hook of a boundary event: resolves when the snapshot is durable or has failed, which policy then deals with. */
  async onBoundary({ type, payload }: { readonly type: string; readonly payload: unknown }): Promise<void> {
    if (this.#tell === undefined || this.#parts.ending.begun) return
    const { turn_id: turnId, reason } = (payload ?? {}) as { turn_id?: string; reason?: string }
    const isTurn = type === 'agent.turn.end'
    if (isTurn) this.#parts.tracker.turnEnded(turnId)
    const request: SnapshotRequest = isTurn
      ? { trigger: 'turn', ...(turnId === undefined ? {} : { turnId }) }
      : { trigger: 'request', ...(reason === undefined ? {} : { reason }) }
    await this.#parts.slot.request(request).catch((error: unknown) => {
      this.#parts.options.logger.error({ err: error }, 'a snapshot failed in an unexpected way')
    })
  }

  status(): DurabilityStatus {
    return durabilityStatus(this.#parts)
  }

  /** Ends heartbeat, retries and the gate. First thing of a stop; bounded, never rejects, may be called again. */
  detachInputs(): Promise<void> {
    return this.#parts.ending.detachInputs()
  }

  /**
   * Ends the run in the store: blobs on their way, final snapshot, owner marker, flush, close. To be called when plugins,
   * journal and databases are closed. Does nothing after {@link abandon}.
   *
   * @throws under `strict`, when everything is released, what the last snapshot or flush failed with
   */
  finish(options: FinishOptions): Promise<void> {
    return this.#parts.ending.finish(options)
  }

  /** Drops the run: nothing is written any more, the owner marker stays. Bounded, never rejects. */
  abandon(): Promise<void> {
    return this.#parts.ending.abandon()
  }

  #closedError(): NexusError {
    const { sessionId } = this.#parts.options
    const message = `session ${sessionId} has ended; nothing more is stored`
    return new NexusError('CLOSED', message, { op: 'durability.snapshot', key: sessionId })
  }
}
