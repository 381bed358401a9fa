import { NexusError } from '@nexus/errors'
import type { ObjectStore } from '@nexus/objectstore'
import { Deadline, raceSignal, type Clock, type Logger } from '@nexus/host'
import type { CommitGuard } from '../commit/commit-guard.ts'
import type { DurabilityTimings } from '../durability-timings.ts'
import type { EventOutbox } from '../outage/event-outbox.ts'
import type { TurnGate } from '../outage/gate.ts'
import type { MachineRecordFile } from '../boot/machine-record.ts'
import type { FailurePolicy } from '../outage/outage.ts'
import type { SessionOwner } from '../owner/owner.ts'
import type { RecoveryWorker } from '../outage/recovery.ts'
import type { SessionBlobs } from '../blobs/session-blobs.ts'
import type { FinishOptions } from '../session-durability-options.ts'
import type { SessionSnapshots, SnapshotOutcome, SnapshotRequest } from '../commit/session-snapshots.ts'
import type { SnapshotSlot } from '../commit/snapshot-slot.ts'
import { syncTree } from '../tree/sync-tree.ts'

/** What is ended. */
export interface SessionEndingOptions {
  store: ObjectStore
  sessionId: string
  sessionDir: string
  policy: FailurePolicy
  clock: Clock
  logger: Logger
  timings: DurabilityTimings
  outbox: EventOutbox
  gate: TurnGate
  owner: SessionOwner
  recovery: RecoveryWorker
  blobs: SessionBlobs
  snapshots: SessionSnapshots
  slot: SnapshotSlot<SnapshotRequest, SnapshotOutcome>
  guard: CommitGuard
  record: MachineRecordFile
  /** The journal is closed: snapshots take its files as they are. */
  onJournalClosed: () => void
}

const FINISH_MS = 30_000

/**
 * Ends a run, well or not, once. Every step is bounded, and the store is closed whatever happens.
 *
 * @see spec 60, Stop and abandon
 */
export class SessionEnding {
  readonly #options: SessionEndingOptions
  #detaching: Promise<void> | undefined
  #ending: Promise<void> | undefined
  /** Fires when the run is abandoned, also in the middle of a finish. */
  readonly #cut = new AbortController()

  constructor(options: SessionEndingOptions) {
    this.#options = options
  }

  get begun(): boolean {
    return this.#ending !== undefined
  }

  get abandoned(): boolean {
    return this.#cut.signal.aborted
  }

  detachInputs(): Promise<void> {
    this.#detaching ??= this.#detachInputs()
    return this.#detaching
  }

  finish(options: FinishOptions): Promise<void> {
    this.#ending ??= this.#finish(options)
    return this.#ending
  }

  async abandon(): Promise<void> {
    const { outbox, snapshots, blobs } = this.#options
    this.#cut.abort(new NexusError('ABORTED', 'the session was abandoned', { op: 'durability.finish' }))
    outbox.close()
    snapshots.stop()
    blobs.close()
    this.#ending ??= this.#abandon()
    // A finish that was under way is cut short, and its failure is its caller's.
    await this.#ending.catch(() => undefined)
  }

  async #detachInputs(): Promise<void> {
    const { gate, snapshots, owner, recovery, timings } = this.#options
    gate.remove()
    snapshots.yieldRetry()
    await this.#within('ending the background work of the session', timings.drainMs, () =>
      Promise.all([owner.stop(), recovery.stop()]),
    )
  }

  async #finish({ clean, timeoutMs = FINISH_MS }: FinishOptions): Promise<void> {
    const { store, clock, policy, logger, sessionId, timings, blobs, guard, owner, outbox, snapshots } = this.#options
    const bound = new Deadline('storing the end of the session', timeoutMs, clock, this.#cut.signal)
    const { signal } = bound
    const failures: Error[] = []
    try {
      await this.detachInputs()
      const drainMs = Math.min(timings.drainMs, timeoutMs / 3)
      if (clean) await this.#within('uploading the last blobs', drainMs, (limit) => blobs.drain(limit), signal)
      blobs.close()
      // Of the local disk alone, so a store that keeps the end waiting until it is cut must not spoil it.
      const syncing = clean && this.#syncTree(timeoutMs)
      const stored = clean && (await this.#storeLast(signal, failures))
      // A run that lost the session writes nothing more, not even its marker's end.
      if (guard.lost === undefined) {
        await owner.release(signal)
        await store.flush({ signal }).catch((error: Error) => failures.push(error))
      }
      await this.#endRecord(clean, stored, await syncing)
    } finally {
      bound.clear()
      snapshots.stop()
      outbox.close()
      await this.#closeStore()
    }
    const [failure] = failures
    if (failure === undefined) return
    if (policy === 'strict' && clean) throw failure
    logger.warn({ err: failure, session_id: sessionId }, 'the end of the session is not stored; its local tree is')
  }

  /** True when the store holds everything that is in the tree. */
  async #storeLast(signal: AbortSignal, failures: Error[]): Promise<boolean> {
    this.#options.onJournalClosed()
    try {
      const last = this.#options.slot.request({ trigger: 'shutdown', signal })
      const { error, result } = await raceSignal(last, signal)
      if (error !== undefined) throw error
      return result?.unstored.length === 0
    } catch (error) {
      failures.push(error as Error)
      return false
    }
  }

  /** Whether all of the tree is on the disk. Bounded; never rejects. */
  async #syncTree(limitMs: number): Promise<boolean> {
    const { sessionDir, clock, logger } = this.#options
    const bound = new Deadline('syncing the session', limitMs, clock, this.#cut.signal)
    try {
      return await raceSignal(syncTree(sessionDir, bound.signal), bound.signal)
    } catch (error) {
      logger.warn({ err: error, path: sessionDir }, 'the session could not be synced to the disk')
      return false
    } finally {
      bound.clear()
    }
  }

  async #endRecord(clean: boolean, stored: boolean, synced: boolean): Promise<void> {
    const { record, logger } = this.#options
    try {
      if (!clean) return await record.close()
      await record.end({ clean: synced, stored })
    } catch (error) {
      logger.warn(
        { err: error },
        'how the session ended could not be noted; after a reboot it is restored from the store',
      )
    }
  }

  async #abandon(): Promise<void> {
    const { slot, record, owner, timings } = this.#options
    await this.detachInputs()
    owner.leave()
    await this.#within('abandoning a snapshot', timings.drainMs, () => slot.idle())
    await record.close()
    await this.#closeStore()
  }

  async #closeStore(): Promise<void> {
    await this.#within('closing the object store', this.#options.timings.closeMs, () => this.#options.store.close())
  }

  /** Runs bounded work whose failure is only worth a line. */
  async #within(
    what: string,
    limitMs: number,
    work: (signal: AbortSignal) => Promise<unknown>,
    outer?: AbortSignal,
  ): Promise<void> {
    const bound = new Deadline(what, limitMs, this.#options.clock, outer)
    try {
      await raceSignal(work(bound.signal), bound.signal)
    } catch (error) {
      this.#options.logger.warn({ err: error, session_id: this.#options.sessionId }, `${what} failed`)
    } finally {
      bound.clear()
    }
  }
}
