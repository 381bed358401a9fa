import { isNexusError } from '@nexus/errors'
import type { Clock, Logger } from '@nexus/host'
import type { CommitGuard } from '../commit/commit-guard.ts'
import type { EventOutbox } from './event-outbox.ts'
import type { TurnGate } from './gate.ts'
import { Outage, type FailurePolicy } from './outage.ts'
import type { RecoveryWorker } from './recovery.ts'
import type { SnapshotOutcome } from '../commit/session-snapshots.ts'
import { logSnapshot, snapshotResultPayload } from '../commit/snapshot-report.ts'

export interface StoreLedgerOptions {
  sessionId: string
  backendName: string
  policy: FailurePolicy
  clock: Clock
  logger: Logger
  outbox: EventOutbox
  gate: TurnGate
  guard: CommitGuard
  recovery: RecoveryWorker
  /** Every shared root was looked for. */
  isSharedComplete: () => boolean
}

/**
 * The books on what is stored and what is owed: turns what happened into policy, debts and events. Everything here is
 * synchronous, so that the books are in order before the snapshot slot is free; events are posted and go out later.
 *
 * @see spec 60, Failure policy
 */
export class StoreLedger {
  readonly outage: Outage
  readonly #options: StoreLedgerOptions
  #last: SnapshotOutcome | undefined

  constructor(options: StoreLedgerOptions) {
    const { sessionId, backendName, policy, clock, gate, outbox, recovery } = options
    this.#options = options
    this.outage = new Outage({
      sessionId,
      policy,
      clock,
      gate,
      outbox,
      backend: backendName,
      debts: () => ({
        queuedPushes: recovery.queued,
        droppedPushes: recovery.dropped,
        snapshotPending: recovery.snapshotOwed,
      }),
    })
  }

  /** The last snapshot that was stored or failed. */
  get last(): SnapshotOutcome | undefined {
    return this.#last
  }

  /** A snapshot is over. */
  snapshotTaken(outcome: SnapshotOutcome): void {
    const { sessionId, policy, logger, outbox, guard, recovery } = this.#options
    if (outcome.yielded) {
      logger.debug({ session_id: sessionId }, 'a retry gave way to a turn')
      return
    }
    this.#last = outcome
    logSnapshot(logger, sessionId, outcome)
    outbox.post('session.snapshot.result', snapshotResultPayload(sessionId, outcome))
    const { error } = outcome
    if (error === undefined) return this.#snapshotStored(outcome)
    if (policy === 'strict') {
      const retryable = isNexusError(error) && error.retryable
      outbox.post('core.error', { source: 'core.object_store', error: error.message, fatal: false, retryable })
    }
    if (guard.lost === undefined) recovery.oweSnapshot()
    this.outage.failed(error, { endangersTurns: true })
  }

  /** Another host has committed, and that was found between two snapshots. */
  async ownershipLost(error: Error): Promise<void> {
    this.outage.failed(error, { endangersTurns: true })
    await this.#options.outbox.flush()
  }

  /** The store could not be asked at boot for the session's tree. */
  treeUnreachable(error: Error): void {
    this.#options.recovery.oweSnapshot()
    this.outage.failed(error, { endangersTurns: true })
  }

  /** Shared stores could not be looked for, or not be stored. The session itself is fine. */
  sharedFailed(error: Error): void {
    this.#options.recovery.oweShared()
    this.outage.failed(error, { endangersTurns: false })
  }

  /** A blob did not get through ahead of its turn. The turn's snapshot takes it, so no turn is refused for it. */
  pushFailed(error: Error): void {
    this.outage.failed(error, { endangersTurns: false })
  }

  /** Blobs may not be durable although they were stored: only a whole snapshot settles that. */
  flushFailed(error: Error): void {
    this.#options.recovery.oweSnapshot()
    this.outage.failed(error, { endangersTurns: false })
  }

  /** Ends the outage when nothing is owed any more. */
  settle(): void {
    const { recovery, guard } = this.#options
    if (!recovery.owesAnything && !guard.undecided && guard.lost === undefined) this.outage.over()
  }

  #snapshotStored({ mark, shared }: SnapshotOutcome): void {
    const { gate, recovery, logger, isSharedComplete } = this.#options
    gate.open()
    this.outage.succeeded()
    recovery.snapshotStored(mark)
    if (shared?.error !== undefined) {
      logger.warn({ err: shared.error }, 'the shared stores could not be stored; the session is')
      this.sharedFailed(shared.error)
    } else if (isSharedComplete()) recovery.sharedStored(mark)
    this.settle()
  }
}
