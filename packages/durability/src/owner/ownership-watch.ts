import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { ObjectStore } from '@nexus/objectstore'
import type { Clock } from '@nexus/host'
import type { CommitGuard } from '../commit/commit-guard.ts'
import { readCommittedPair } from '../mirror/manifest-store.ts'

export interface OwnershipWatchOptions {
  store: ObjectStore
  sessionId: string
  sessionsRoot: string
  guard: CommitGuard
  clock: Clock
  /** How long an answer is good for writes that harm nobody. */
  maxAgeMs: number
  /** Another host has committed, and this look found it. */
  onLoss: (error: Error) => void
}

/**
 * Makes sure, between snapshots, that nobody else has committed: before a heartbeat claims the session anew, and before a
 * blob is uploaded by a process that may have been frozen for hours. It reads a few bytes and changes nothing.
 *
 * @see spec 60, Stop and abandon: a process that was frozen
 */
export class OwnershipWatch {
  readonly #options: OwnershipWatchOptions
  #confirmedAtMs: number

  constructor(options: OwnershipWatchOptions) {
    this.#options = options
    this.#confirmedAtMs = options.clock.now()
  }

  /** The store was asked just now, by somebody else. */
  noteConfirmed(): void {
    this.#confirmedAtMs = this.#options.clock.now()
  }

  /**
   * Asks the store.
   *
   * @throws `FENCED` when another host committed, the store's error when it fails
   */
  async confirm(signal?: AbortSignal): Promise<void> {
    const { store, sessionId, sessionsRoot, guard, onLoss } = this.#options
    const scratchDir = join(sessionsRoot, '.machine')
    await mkdir(scratchDir, { recursive: true, mode: 0o700 })
    const head = await readCommittedPair(store, sessionId, { scratchDir, ...(signal === undefined ? {} : { signal }) })
    const wasLost = guard.lost !== undefined
    try {
      guard.checkHead(head)
    } catch (error) {
      if (!wasLost) onLoss(error as Error)
      throw error
    }
    this.noteConfirmed()
  }

  /** {@link confirm}, if the last answer is old: this process stood still, or the store was silent. */
  async confirmIfOld(signal?: AbortSignal): Promise<void> {
    const { clock, maxAgeMs } = this.#options
    if (clock.now() - this.#confirmedAtMs > maxAgeMs) await this.confirm(signal)
  }
}
