import type { RunContext } from '../run-context.ts'
import type { TurnGate } from './gate.ts'
import type { RecoveryWorker } from './recovery.ts'

/** An outage as it stands. */
export interface OutageState {
  sinceMs: number
  /** Failures in a row, since the last success. */
  consecutiveFailures: number
  /** Failures in all. */
  failures: number
  retryAttempts: number
  drainedPushes: number
  lastError: Error
}

/**
 * The time between the first failure and the moment when nothing is owed to the store any more: one
 * `session.storage.degraded`, then one `session.storage.recovered`.
 *
 * @see docs/concepts/durability.md
 */
export class Outage {
  readonly #run: RunContext
  readonly #gate: TurnGate
  readonly #debts: RecoveryWorker
  #state: OutageState | undefined
  #droppedBefore = 0

  constructor(run: RunContext, gate: TurnGate, debts: RecoveryWorker) {
    this.#run = run
    this.#gate = gate
    this.#debts = debts
  }

  get state(): Readonly<OutageState> | undefined {
    return this.#state
  }

  /**
   * Counts a failure; the first one opens the outage.
   *
   * @param endangersTurns the session's tree isn't stored: under `strict` no further turn is taken
   */
  failed(error: Error, { endangersTurns }: { endangersTurns: boolean }): void {
    if (endangersTurns && this.#run.policy === 'strict') this.#gate.close(gateReason(error))
    if (this.#state !== undefined) {
      this.#state.consecutiveFailures += 1
      this.#state.failures += 1
      this.#state.lastError = error
      return
    }
    this.#state = {
      sinceMs: this.#run.clock.now(),
      consecutiveFailures: 1,
      failures: 1,
      retryAttempts: 0,
      drainedPushes: 0,
      lastError: error,
    }
    this.#droppedBefore = this.#debts.dropped
    this.#postDegraded(this.#state)
  }

  /** Something reached the store. */
  succeeded(): void {
    if (this.#state !== undefined) this.#state.consecutiveFailures = 0
  }

  retried(): void {
    if (this.#state !== undefined) this.#state.retryAttempts += 1
  }

  drained(pushes: number): void {
    if (this.#state !== undefined) this.#state.drainedPushes += pushes
  }

  /** Nothing is owed any more. Without an outage, nothing happens. */
  over(): void {
    const state = this.#state
    if (state === undefined) return
    this.#state = undefined
    const { sessionId, backendName: backend, policy, clock, outbox } = this.#run
    outbox.post('session.storage.recovered', {
      session_id: sessionId,
      backend,
      failure_policy: policy,
      degraded_for_seconds: Math.max(0, clock.now() - state.sinceMs) / 1000,
      failures: state.failures,
      retry_attempts: state.retryAttempts,
      drained_pushes: state.drainedPushes,
      dropped_pushes: this.#debts.dropped - this.#droppedBefore,
    })
  }

  #postDegraded(state: OutageState): void {
    const { sessionId, backendName: backend, policy, outbox } = this.#run
    outbox.post('session.storage.degraded', {
      session_id: sessionId,
      backend,
      failure_policy: policy,
      since: new Date(state.sinceMs).toISOString(),
      consecutive_failures: state.consecutiveFailures,
      queued_pushes: this.#debts.queued,
      dropped_pushes: this.#debts.dropped,
      snapshot_pending: this.#debts.snapshotOwed,
      turns_blocked: this.#gate.closed,
      error: state.lastError.message,
    })
  }
}

function gateReason(error: Error): string {
  return `the last turn is not stored and failure_policy is strict: ${error.message}`
}
