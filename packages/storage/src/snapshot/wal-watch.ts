import type { Clock, Logger, TimerHandle } from '@nexus/host'
import type { CheckpointCounts } from '../copy/checkpoint.ts'

/** What a checkpoint came to, and for which database. */
export interface WalReport extends CheckpointCounts {
  readonly pluginId: string
  readonly livePath: string
}

/**
 * Keeps WALs from growing unseen: SQLite's own checkpoints give up in silence as long as a reader holds an old state. Looks
 * at intervals for as long as it is running, and says once per database, until it clears, that one can't be emptied.
 */
export class WalWatch {
  readonly #clock: Clock
  readonly #logger: Logger
  readonly #drain: () => Promise<void>
  readonly #intervalMs: number
  readonly #blocked = new Set<string>()
  #timer: TimerHandle | undefined
  #stopped = false

  /**
   * @param drain checkpoints the databases whose WAL is large, and hands over what that came to; never rejects
   * @param intervalMs how often the sizes of WALs are looked at
   */
  constructor(clock: Clock, logger: Logger, drain: () => Promise<void>, intervalMs: number) {
    this.#clock = clock
    this.#logger = logger
    this.#drain = drain
    this.#intervalMs = intervalMs
  }

  /** Begins to look, without holding the process. A second call does nothing. */
  start(): void {
    if (this.#timer !== undefined || this.#stopped) return
    this.#timer = this.#clock.setTimeout(() => {
      void this.#drain().finally(() => {
        this.#timer = undefined
        this.start()
      })
    }, this.#intervalMs)
    this.#timer.unref()
  }

  stop(): void {
    this.#stopped = true
    if (this.#timer !== undefined) this.#clock.clearTimeout(this.#timer)
  }

  /** Takes note of a checkpoint. */
  report({ pluginId, livePath, busy, walFrames, checkpointedFrames }: WalReport): void {
    if (!busy) return void this.#blocked.delete(livePath)
    if (checkpointedFrames >= walFrames || this.#blocked.has(livePath)) return
    this.#blocked.add(livePath)
    this.#logger.warn(
      { pluginId, path: livePath, wal_frames: walFrames, checkpointed_frames: checkpointedFrames },
      'a reader keeps the WAL of a database from being emptied, so it grows: end its iterator or transaction',
    )
  }
}
