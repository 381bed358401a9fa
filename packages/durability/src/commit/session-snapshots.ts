import { randomBytes } from 'node:crypto'
import { NexusError } from '@nexus/errors'
import type { JournalWriter } from '@nexus/journal'
import type { ObjectStore } from '@nexus/objectstore'
import type { StorageManager } from '@nexus/storage'
import type { Clock, Failpoint, Logger } from '@nexus/host'
import type { CommittedGeneration } from './committed-generation.ts'
import type { MachineRecordFile } from '../boot/machine-record.ts'
import type { Manifest } from '../mirror/manifest.ts'
import type { SharedResult } from '../shared/shared-roots.ts'
import { SnapshotMemory } from '../capture/memory.ts'
import { takeSnapshot, type SnapshotResult, type SnapshotTrigger } from './snapshot.ts'

/** One wish for a snapshot. */
export interface SnapshotRequest {
  trigger: SnapshotTrigger
  turnId?: string
  reason?: string
  /** Calls the whole snapshot off: for the final one, which nobody waits for any longer. */
  signal?: AbortSignal
}

/** What became of one snapshot, for everybody who shared it. */
export interface SnapshotOutcome {
  trigger: SnapshotTrigger
  turnId: string | undefined
  reason: string | undefined
  /** Counts the snapshots of this run from 1. */
  sequence: number
  generation: number
  /** The bookkeeping of debts when it started. */
  mark: number
  startedAtMs: number
  durationMs: number
  result?: SnapshotResult
  shared?: SharedResult
  error?: Error
  /** It stopped by itself because a turn began: neither stored nor failed. */
  yielded: boolean
}

/** Where the session's parts are while a run is up. */
export interface SessionParts {
  sessionDir: string
  /** Absent once it is closed. */
  journal?: JournalWriter
  storage?: StorageManager
}

export interface SessionSnapshotsOptions {
  store: ObjectStore
  sessionId: string
  sessionsRoot: string
  instanceId: string
  record: MachineRecordFile
  committed: CommittedGeneration
  clock: Clock
  logger: Logger
  failpoint: Failpoint
  parts: () => SessionParts
  /** Looks at what the store holds now and throws when this run may not commit over it. */
  guard: (manifest: Manifest | undefined) => Promise<void>
  /** Stores the shared roots. Never rejects. */
  shared: (signal: AbortSignal) => Promise<SharedResult>
  mark: () => number
}

/** Most urgent first: a snapshot that several asked for goes by the first of these. */
const BY_URGENCY: readonly SnapshotTrigger[] = ['shutdown', 'turn', 'request', 'retry']

/** Takes the session's snapshots, one at a time: see {@link SnapshotSlot}. */
export class SessionSnapshots {
  readonly #options: SessionSnapshotsOptions
  readonly #life = new AbortController()
  #memory = new SnapshotMemory()
  #sequence = 0
  #highestGeneration = 0
  #retry: AbortController | undefined

  constructor(options: SessionSnapshotsOptions) {
    this.#options = options
  }

  get sequence(): number {
    return this.#sequence
  }

  /** Ends a retry that is on its way, since a turn begins: what it would store is no turn boundary any more. */
  yieldRetry(): void {
    this.#retry?.abort(
      new NexusError('ABORTED', 'a turn began while a retry was storing the last one', { op: 'durability.retry' }),
    )
  }

  /** Ends what runs, and everything that comes. */
  stop(): void {
    this.#life.abort(new NexusError('ABORTED', 'the session was abandoned', { op: 'durability.snapshot' }))
  }

  /** Takes one snapshot for the whole batch. Never rejects. */
  async run(batch: readonly SnapshotRequest[]): Promise<SnapshotOutcome> {
    const { clock, mark } = this.#options
    const startedAtMs = clock.now()
    const trigger = BY_URGENCY.find((each) => batch.some((request) => request.trigger === each)) ?? 'request'
    const outcome: SnapshotOutcome = {
      trigger,
      turnId: batch.findLast((request) => request.turnId !== undefined)?.turnId,
      reason: batch.findLast((request) => request.reason !== undefined)?.reason,
      sequence: ++this.#sequence,
      generation: 0,
      mark: mark(),
      startedAtMs,
      durationMs: 0,
      yielded: false,
    }
    const retry = trigger === 'retry' ? new AbortController() : undefined
    this.#retry = retry
    const signal = AbortSignal.any([
      this.#life.signal,
      ...signalsOf(batch),
      ...(retry === undefined ? [] : [retry.signal]),
    ])
    try {
      outcome.result = await this.#take(outcome, signal)
      this.#retry = undefined
      outcome.shared = await this.#options.shared(signal)
    } catch (error) {
      outcome.error = error instanceof Error ? error : new Error(String(error))
      outcome.yielded = retry?.signal.aborted === true && !this.#life.signal.aborted
    } finally {
      this.#retry = undefined
    }
    outcome.durationMs = clock.now() - startedAtMs
    return outcome
  }

  async #take(outcome: SnapshotOutcome, signal: AbortSignal): Promise<SnapshotResult> {
    const { store, sessionId, sessionsRoot, instanceId, record, committed, clock, logger, failpoint } = this.#options
    signal.throwIfAborted()
    const known = committed.manifest
    const held = await committed.look(signal)
    if (known !== undefined && held === undefined) {
      logger.warn(
        { session_id: sessionId, generation: known.generation },
        'the committed session is gone from the store: storing all of it again',
      )
      this.#memory = new SnapshotMemory()
    }
    await this.#options.guard(held)
    const highest = Math.max(this.#highestGeneration, record.highestGeneration, held?.generation ?? 0)
    const generation = highest + 1
    this.#highestGeneration = generation
    outcome.generation = generation
    const { mixedFrom } = record.current
    const result = await takeSnapshot({
      store,
      sessionId,
      sessionsRoot,
      instanceId,
      clock,
      logger,
      failpoint,
      signal,
      generation,
      ...this.#options.parts(),
      memory: this.#memory,
      nonce: randomBytes(16).toString('hex'),
      sequence: outcome.sequence,
      trigger: outcome.trigger,
      beforeCommit: (pair) => record.aboutToCommit(pair),
      ...(held === undefined ? {} : { committed: held }),
      ...(outcome.turnId === undefined ? {} : { turnId: outcome.turnId }),
      ...(mixedFrom === undefined ? {} : { mixedFrom }),
    })
    committed.manifest = result.manifest
    record.committed(result.manifest, result.manifest.journal.last_seq)
    return result
  }
}

function signalsOf(batch: readonly SnapshotRequest[]): AbortSignal[] {
  return batch.flatMap(({ signal }) => signal ?? [])
}
