import { isNexusError } from '@nexus/errors'
import type { CommitGuard } from '../commit/commit-guard.ts'
import type { SnapshotOutcome } from '../commit/snapshot-outcome.ts'
import { logSnapshot, snapshotResultPayload } from '../commit/snapshot-report.ts'
import type { RunContext } from '../run-context.ts'
import type { TurnGate } from './gate.ts'
import { Outage } from './outage.ts'
import type { RecoveryWorker } from './recovery.ts'

/**
 * The books on what is stored and what is owed: turns what happened into policy, debts and events. Everything here is
 * synchronous, so that the books are in order before the snapshot slot is free; events are posted and go out later.
 *
 * @see docs/concepts/durability.md
 */
export class StoreLedger {
  readonly outage: Outage
  readonly #run: RunContext
  readonly #gate: TurnGate
  readonly #guard: CommitGuard
  readonly #recovery: RecoveryWorker
  readonly #isSharedComplete: () => boolean
  #last: SnapshotOutcome | undefined

  /** @param isSharedComplete every shared root was looked for */
  constructor(
    run: RunContext,
    gate: TurnGate,
    guard: CommitGuard,
    recovery: RecoveryWorker,
    isSharedComplete: () => boolean,
  ) {
    this.#run = run
    this.#gate = gate
    this.#guard = guard
    this.#recovery = recovery
    this.#isSharedComplete = isSharedComplete
    this.outage = new Outage(run, gate, recovery)
  }

  /** The last snapshot that was stored or failed. */
  get last(): SnapshotOutcome | undefined {
    return this.#last
  }

  /** A snapshot is over. */
  snapshotTaken(outcome: SnapshotOutcome): void {
    const { sessionId, policy, logger, outbox, fence } = this.#run
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
    // What ended the run is in the books already.
    if (fence.reason !== undefined) return
    this.#recovery.oweSnapshot()
    this.outage.failed(error, { endangersTurns: true })
  }

  /** Another host or process has the session: nothing is owed any more, and nothing is stored. */
  lost(reason: Error): void {
    this.#recovery.forgive()
    this.outage.failed(reason, { endangersTurns: true })
  }

  /** The store could not be asked at boot for the session's tree. */
  treeUnreachable(error: Error): void {
    this.#recovery.oweSnapshot()
    this.outage.failed(error, { endangersTurns: true })
  }

  /** Shared stores could not be looked for, or not be stored. The session itself is fine. */
  sharedFailed(error: Error): void {
    this.#recovery.oweShared()
    this.outage.failed(error, { endangersTurns: false })
  }

  /** A blob did not get through ahead of its turn. The turn's snapshot takes it, so no turn is refused for it. */
  pushFailed(error: Error): void {
    this.outage.failed(error, { endangersTurns: false })
  }

  /** Blobs may not be durable although they were stored: only a whole snapshot settles that. */
  flushFailed(error: Error): void {
    this.#recovery.oweSnapshot()
    this.outage.failed(error, { endangersTurns: false })
  }

  /** Ends the outage when nothing is owed any more. */
  settle(): void {
    const isSettled = !this.#recovery.owesAnything && !this.#guard.undecided && this.#run.fence.reason === undefined
    if (isSettled) this.outage.over()
  }

  #snapshotStored({ mark, shared }: SnapshotOutcome): void {
    const recovery = this.#recovery
    this.#gate.open()
    this.outage.succeeded()
    recovery.snapshotStored(mark)
    if (shared?.error !== undefined) {
      this.#run.logger.warn({ err: shared.error }, 'the shared stores could not be stored; the session is')
      this.sharedFailed(shared.error)
    } else if (this.#isSharedComplete()) recovery.sharedStored(mark)
    this.settle()
  }
}
