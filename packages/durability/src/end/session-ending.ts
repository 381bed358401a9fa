import { NexusError } from '@nexus/errors'
import { Deadline, raceSignal } from '@nexus/host'
import type { SessionBlobs } from '../blobs/session-blobs.ts'
import type { SnapshotOutcome, SnapshotRequest } from '../commit/snapshot-outcome.ts'
import type { SnapshotSlot } from '../commit/snapshot-slot.ts'
import type { TurnGate } from '../outage/gate.ts'
import type { RecoveryWorker } from '../outage/recovery.ts'
import type { SessionOwner } from '../owner/owner.ts'
import type { RunContext } from '../run-context.ts'
import { syncTree } from '../tree/sync-tree.ts'

/** How a run ends. */
export interface FinishOptions {
  /** The run ended well: take the final snapshot. False for a boot that failed. */
  clean: boolean
  /** Leave the final snapshot out when nothing but the session's own end has changed since the last commit. */
  onlyIfNew?: boolean
  /** Bounds all of it. Default 30 s. */
  timeoutMs?: number
}

/** What is ended. */
export interface EndingParts {
  gate: TurnGate
  owner: SessionOwner
  recovery: RecoveryWorker
  blobs: SessionBlobs
  slot: SnapshotSlot<SnapshotRequest, SnapshotOutcome>
}

const FINISH_MS = 30_000

/**
 * Ends a run, well or not, once. Every step is bounded, and the store is closed whatever happens.
 *
 * @see docs/concepts/durability.md
 */
export class SessionEnding {
  readonly #run: RunContext
  readonly #parts: EndingParts
  #detaching: Promise<void> | undefined
  #ending: Promise<void> | undefined

  constructor(run: RunContext, parts: EndingParts) {
    this.#run = run
    this.#parts = parts
  }

  /** @param limitMs what the caller can wait; a store that doesn't let go is left behind */
  detachInputs(limitMs: number = this.#run.timings.drainMs): Promise<void> {
    this.#detaching ??= this.#detachInputs(Math.min(limitMs, this.#run.timings.drainMs))
    return this.#detaching
  }

  finish(options: FinishOptions): Promise<void> {
    this.#run.isEnding = true
    this.#ending ??= this.#finish(options)
    return this.#ending
  }

  async abandon(): Promise<void> {
    const { outbox, fence } = this.#run
    this.#run.isEnding = true
    outbox.close()
    fence.fall(this.closedError('was abandoned'))
    this.#parts.blobs.close()
    this.#ending ??= this.#abandon()
    // A finish that was under way is cut short, and its failure is its caller's.
    await this.#ending.catch(() => undefined)
  }

  async #detachInputs(limitMs: number): Promise<void> {
    const { gate, owner, recovery } = this.#parts
    gate.remove()
    await this.#within('ending the background work of the session', limitMs, () =>
      Promise.all([owner.stop(), recovery.stop()]),
    )
  }

  async #finish({ clean, onlyIfNew = false, timeoutMs = FINISH_MS }: FinishOptions): Promise<void> {
    const { store, layout, clock, policy, logger, sessionId, timings, fence, outbox } = this.#run
    const { blobs, owner } = this.#parts
    const closeMs = Math.min(timings.closeMs, timeoutMs / 5)
    const bound = new Deadline('storing the end of the session', timeoutMs - closeMs, clock, fence.signal)
    const { signal } = bound
    const failures: Error[] = []
    try {
      await this.detachInputs(timeoutMs / 5)
      if (clean) await this.#within('uploading the last blobs', timeoutMs / 5, (limit) => blobs.drain(limit), signal)
      blobs.close()
      // Of the local disk alone, so a store that keeps the end waiting until it is cut must not spoil it.
      const syncing = clean && this.#syncTree(timeoutMs - closeMs)
      const stored = clean && (await this.#storeLast(signal, onlyIfNew, failures))
      // A run that lost the session writes nothing more, not even its marker's end.
      if (fence.reason === undefined) {
        await owner.release(signal)
        await layout.chain?.leaveHint(signal)
        await store.flush({ signal }).catch((error: Error) => failures.push(error))
      }
      await this.#closeChain(closeMs)
      await this.#endRecord(clean, stored, await syncing)
    } finally {
      bound.clear()
      fence.fall(this.closedError())
      outbox.close()
      await this.#closeStore(closeMs)
    }
    const [failure] = failures
    if (failure === undefined) return
    if (policy === 'strict' && clean) throw failure
    logger.warn({ err: failure, session_id: sessionId }, 'the end of the session is not stored; its local tree is')
  }

  /** True when the store holds everything that is in the tree. */
  async #storeLast(signal: AbortSignal, onlyIfNew: boolean, failures: Error[]): Promise<boolean> {
    this.#run.journal = undefined
    try {
      this.#run.fence.check()
      const last = this.#parts.slot.request({ trigger: 'shutdown', signal, onlyIfNew })
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
    const { sessionDir, clock, logger, fence } = this.#run
    const bound = new Deadline('syncing the session', limitMs, clock, fence.signal)
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
    const { record, logger, fence } = this.#run
    try {
      // Another process may hold the session by now, and with it the record.
      if (!clean || fence.reason !== undefined) return await record.close()
      await record.end({ clean: synced, stored })
    } catch (error) {
      logger.warn(
        { err: error },
        'how the session ended could not be noted; after a reboot it is restored from the store',
      )
    }
  }

  async #abandon(): Promise<void> {
    const { record, timings } = this.#run
    const { slot, owner } = this.#parts
    await this.detachInputs()
    owner.leave()
    await this.#within('abandoning a snapshot', timings.drainMs, () => slot.idle())
    await this.#closeChain(timings.closeMs)
    await record.close()
    await this.#closeStore(timings.closeMs)
  }

  async #closeChain(limitMs: number): Promise<void> {
    await this.#within('closing the chain of commits', limitMs, async () => await this.#run.layout.chain?.close())
  }

  async #closeStore(limitMs: number): Promise<void> {
    await this.#within('closing the object store', limitMs, () => this.#run.store.close())
  }

  /** The error of a caller that wants something stored after the end. */
  closedError(how = 'has ended'): NexusError {
    const { sessionId } = this.#run
    const message = `session ${sessionId} ${how}; nothing more is stored`
    return new NexusError('CLOSED', message, { op: 'durability.snapshot', key: sessionId })
  }

  /** Runs bounded work whose failure is only worth a line. */
  async #within(
    what: string,
    limitMs: number,
    work: (signal: AbortSignal) => Promise<unknown>,
    outer?: AbortSignal,
  ): Promise<void> {
    const bound = new Deadline(what, limitMs, this.#run.clock, outer)
    try {
      await raceSignal(work(bound.signal), bound.signal)
    } catch (error) {
      this.#run.logger.warn({ err: error, session_id: this.#run.sessionId }, `${what} failed`)
    } finally {
      bound.clear()
    }
  }
}
