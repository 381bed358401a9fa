import { randomBytes } from 'node:crypto'
import { SnapshotMemory } from './capture/memory.ts'
import type { Committed } from './tree/committed.ts'
import type { RecoveryWorker } from './outage/recovery.ts'
import type { StoreLedger } from './outage/store-ledger.ts'
import type { RunContext } from './run-context.ts'
import type { SharedRoots } from './shared/shared-roots.ts'
import type { CommitGuard } from './commit/commit-guard.ts'
import type { SlotWork } from './commit/snapshot-slot.ts'
import type { TurnTracker } from './commit/turn-tracker.ts'
import type { SnapshotOutcome, SnapshotRequest } from './commit/snapshot-outcome.ts'
import { takeSnapshot, type SnapshotResult } from './commit/snapshot.ts'
import type { SnapshotTrigger } from './layout/layout.ts'

/** Most urgent first: a snapshot that several asked for goes by the first of these. */
const BY_URGENCY: readonly SnapshotTrigger[] = ['shutdown', 'turn', 'request', 'retry']

/** Who has a say in a snapshot, and who keeps the books on it. */
export interface SnapshotParts {
  guard: CommitGuard
  tracker: TurnTracker
  shared: SharedRoots
  recovery: RecoveryWorker
  ledger: StoreLedger
}

/** Takes the session's snapshots, one at a time: the work of a {@link SnapshotSlot}. */
export class SessionSnapshots implements SlotWork<SnapshotRequest, SnapshotOutcome> {
  readonly #run: RunContext
  readonly #parts: SnapshotParts
  #memory = new SnapshotMemory()
  #sequence = 0
  #highestGeneration = 0

  constructor(run: RunContext, parts: SnapshotParts) {
    this.#run = run
    this.#parts = parts
  }

  get sequence(): number {
    return this.#sequence
  }

  /** Paths of the committed generation that a snapshot which failed may have overwritten in the store. */
  get overwritten(): string[] {
    const { current } = this.#run.committed
    return this.#memory.unsettled.filter((path) => current?.entries[path] !== undefined)
  }

  /** Takes one snapshot for the whole batch, and settles the books before the slot is free. Never rejects. */
  async run(batch: readonly SnapshotRequest[]): Promise<SnapshotOutcome> {
    const { clock, fence } = this.#run
    const { recovery, tracker, shared, ledger } = this.#parts
    const startedAtMs = clock.now()
    const trigger = BY_URGENCY.find((each) => batch.some((request) => request.trigger === each)) ?? 'request'
    const outcome: SnapshotOutcome = {
      trigger,
      turnId: batch.findLast((request) => request.turnId !== undefined)?.turnId,
      reason: batch.findLast((request) => request.reason !== undefined)?.reason,
      sequence: ++this.#sequence,
      generation: 0,
      mark: recovery.mark(),
      startedAtMs,
      durationMs: 0,
      yielded: false,
    }
    // What waited here since before a turn began may not store half of it now.
    const untilTurn = trigger === 'retry' ? [tracker.untilTurn()] : []
    const called = batch.flatMap((request) => (request.trigger === trigger ? (request.signal ?? []) : []))
    const signal = AbortSignal.any([fence.signal, ...called, ...untilTurn])
    try {
      outcome.result = await this.#take(outcome, signal, batch)
      outcome.shared = await shared.snapshot(this.#run.storage, signal)
    } catch (error) {
      outcome.error = error instanceof Error ? error : new Error(String(error))
      outcome.yielded = untilTurn.some(({ aborted }) => aborted) && !fence.signal.aborted
    }
    outcome.durationMs = clock.now() - startedAtMs
    // An end that was asked for is nothing to tell of.
    if (fence.reason === undefined || fence.isLost) ledger.snapshotTaken(outcome)
    return outcome
  }

  announce(): Promise<void> {
    return this.#run.outbox.flush()
  }

  async #take(
    outcome: SnapshotOutcome,
    signal: AbortSignal,
    batch: readonly SnapshotRequest[],
  ): Promise<SnapshotResult> {
    const { journal, storage, record, committed, ...run } = this.#run
    const { guard } = this.#parts
    signal.throwIfAborted()
    await guard.judgeLate(signal)
    const held = await this.#look(signal)
    await guard.check(held)
    const generation = 1 + Math.max(this.#highestGeneration, record.highestGeneration, held?.generation ?? 0)
    this.#highestGeneration = generation
    outcome.generation = generation
    const { turnId, sequence, trigger } = outcome
    const { mixedFrom } = record.current
    const nonce = randomBytes(16).toString('hex')
    const result = await takeSnapshot({
      ...run,
      signal,
      generation,
      memory: this.#memory,
      nonce,
      sequence,
      trigger,
      // After a snapshot that failed the store may hold other bytes than the commit says.
      onlyIfNew: this.overwritten.length === 0 && batch.every(({ onlyIfNew }) => onlyIfNew === true),
      // Where commits form a chain, the tree's own record says what was sent from it.
      beforeCommit: async (pair) => (run.layout.chain === undefined ? await record.aboutToCommit(pair) : undefined),
      lost: (winner, reason) => guard.lost(winner, reason),
      confirm: (ageMs) => guard.confirmIfOld(ageMs, signal, { generation, nonce }),
      ...(held === undefined ? {} : { committed: held }),
      ...(journal === undefined ? {} : { journal }),
      ...(storage === undefined ? {} : { storage }),
      ...(turnId === undefined ? {} : { turnId }),
      ...(mixedFrom === undefined ? {} : { mixedFrom }),
    })
    outcome.generation = result.committed.generation
    committed.current = result.committed
    record.committed(result.committed, result.committed.journal.last_seq)
    return result
  }

  async #look(signal: AbortSignal): Promise<Committed | undefined> {
    const { committed, logger, sessionId } = this.#run
    const known = committed.current
    const held = await committed.look(signal)
    if (known !== undefined && held === undefined) {
      logger.warn(
        { session_id: sessionId, generation: known.generation },
        'the committed session is gone from the store: storing all of it again',
      )
      this.#memory = new SnapshotMemory()
    }
    return held
  }
}
