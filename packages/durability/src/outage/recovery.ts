import type { Clock, Logger, TimerHandle } from '@nexus/host'

/** One object that failed to reach the store and is tried again. */
export interface DeferredPush {
  key: string
  localPath: string
}

/** What the worker does with the store. None of these rejects: a failure was counted and announced where it happened. */
export interface RecoveryActions {
  /** No turn is under way: a snapshot, of the session or the shared stores, would not hold half of one. */
  mayTakeSnapshot(): boolean
  /** Takes a whole snapshot; true when it was stored. It calls {@link RecoveryWorker.snapshotStored} itself. */
  takeSnapshot(signal: AbortSignal): Promise<boolean>
  /** Uploads one object; false when the store failed. */
  push(push: DeferredPush, signal: AbortSignal): Promise<boolean>
  /** Makes the pushes durable; false when the store failed. */
  flush(signal: AbortSignal): Promise<boolean>
  /** Looks for shared stores that boot could not look for, and stores those that failed; true when nothing is left. */
  repairShared(signal: AbortSignal): Promise<boolean>
  /** An attempt begins. */
  attempting(): void
  /** So many pushes are durable. */
  drained(pushes: number): void
  /** Something was paid, perhaps everything. */
  paid(): Promise<void>
}

export interface RecoveryOptions {
  clock: Clock
  /** In [0, 1). */
  random: () => number
  logger: Logger
  firstDelayMs: number
  maxDelayMs: number
  /** Pushes that may wait. */
  queueLimit: number
  actions: RecoveryActions
}

/** A moment in the worker's bookkeeping; see {@link RecoveryWorker.mark}. */
export type DebtMark = number

/**
 * Pays what is owed to the store once it answers again: failed pushes, a whole snapshot, shared stores. One per run.
 *
 * Attempts follow each other with delays that double from the first to the longest, shortened by up to half at random so
 * that many hosts don't return together. The queue is bounded and loses nothing: a push that doesn't fit is dropped and a
 * whole snapshot is owed, which uploads whatever the store lacks.
 *
 * The delay timer is unref'd: an outage alone never keeps a process alive.
 *
 * @see docs/concepts/durability.md
 */
export class RecoveryWorker {
  readonly #options: RecoveryOptions
  readonly #stop = new AbortController()
  readonly #pushes = new Map<string, DeferredPush & { serial: number }>()
  #serial = 0
  #snapshotOwedSince: number | undefined
  #sharedOwedSince: number | undefined
  #dropped = 0
  #failures = 0
  #timer: TimerHandle | undefined
  #working: Promise<void> | undefined

  constructor(options: RecoveryOptions) {
    this.#options = options
  }

  get queued(): number {
    return this.#pushes.size
  }

  /** Pushes that didn't fit, in this run. */
  get dropped(): number {
    return this.#dropped
  }

  get snapshotOwed(): boolean {
    return this.#snapshotOwedSince !== undefined
  }

  get owesAnything(): boolean {
    return this.#pushes.size > 0 || this.snapshotOwed || this.#sharedOwedSince !== undefined
  }

  /** Queues a failed push. A full queue drops it and owes a whole snapshot instead. */
  owePush(push: DeferredPush): void {
    const serial = ++this.#serial
    if (this.#pushes.size < this.#options.queueLimit || this.#pushes.has(push.key)) {
      this.#pushes.set(push.key, { ...push, serial })
    } else {
      this.#dropped += 1
      this.#snapshotOwedSince = serial
    }
    this.#schedule()
  }

  oweSnapshot(): void {
    this.#snapshotOwedSince = ++this.#serial
    this.#schedule()
  }

  oweShared(): void {
    this.#sharedOwedSince = ++this.#serial
    this.#schedule()
  }

  /** To be taken when a snapshot starts: what is owed until then is covered by it. */
  mark(): DebtMark {
    return this.#serial
  }

  /** A snapshot that started at the mark was stored. */
  snapshotStored(mark: DebtMark): void {
    let covered = 0
    for (const [key, { serial }] of this.#pushes) {
      if (serial > mark) continue
      this.#pushes.delete(key)
      covered += 1
    }
    if ((this.#snapshotOwedSince ?? 0) <= mark) this.#snapshotOwedSince = undefined
    if (covered > 0) this.#options.actions.drained(covered)
    this.#failures = 0
    this.#rest()
  }

  /** The shared stores were looked for and stored, as of the mark. */
  sharedStored(mark: DebtMark): void {
    if ((this.#sharedOwedSince ?? 0) <= mark) this.#sharedOwedSince = undefined
    this.#rest()
  }

  /** Forgets everything that is owed: this run may not write to the store any more. */
  forgive(): void {
    this.#pushes.clear()
    this.#snapshotOwedSince = undefined
    this.#sharedOwedSince = undefined
    this.#rest()
  }

  /** Ends the worker. An attempt that runs is aborted and waited for. */
  async stop(): Promise<void> {
    this.#stop.abort(new DOMException('the run ends', 'AbortError'))
    this.#clearTimer()
    await this.#working
  }

  /** The next delay: at most `maxDelayMs`, at least half of the undisturbed one. */
  #delayMs(): number {
    const { firstDelayMs, maxDelayMs, random } = this.#options
    const undisturbed = Math.min(maxDelayMs, firstDelayMs * 2 ** Math.min(this.#failures, 30))
    return undisturbed * (1 - random() / 2)
  }

  #schedule(): void {
    if (this.#stop.signal.aborted || this.#timer !== undefined || this.#working !== undefined) return
    this.#timer = this.#options.clock.setTimeout(() => {
      this.#timer = undefined
      this.#working = this.#attempt().finally(() => {
        this.#working = undefined
        if (this.owesAnything) this.#schedule()
      })
    }, this.#delayMs())
    this.#timer.unref()
  }

  #rest(): void {
    if (!this.owesAnything) this.#clearTimer()
  }

  #clearTimer(): void {
    if (this.#timer !== undefined) this.#options.clock.clearTimeout(this.#timer)
    this.#timer = undefined
  }

  async #attempt(): Promise<void> {
    const { actions, logger } = this.#options
    const betweenTurns = actions.mayTakeSnapshot()
    // The end of the turn takes its own snapshot: nothing to do here but wait.
    if (!betweenTurns && this.#pushes.size === 0) return
    actions.attempting()
    try {
      const paid = await this.#pay(betweenTurns)
      this.#failures = paid ? 0 : this.#failures + 1
    } catch (error) {
      this.#failures += 1
      logger.error({ err: error }, 'a retry failed in an unexpected way')
    }
    await actions.paid()
  }

  async #pay(betweenTurns: boolean): Promise<boolean> {
    const { actions } = this.#options
    const { signal } = this.#stop
    // A snapshot covers the queue: there is no point in pushing first.
    if (betweenTurns && this.snapshotOwed && !(await actions.takeSnapshot(signal))) return false
    if (this.#pushes.size > 0 && !(await this.#drain(signal))) return false
    if (!betweenTurns || this.#sharedOwedSince === undefined) return true
    const mark = this.mark()
    if (!(await actions.repairShared(signal))) return false
    this.sharedStored(mark)
    return true
  }

  /** Pushes leave the queue only when a flush has made them durable. */
  async #drain(signal: AbortSignal): Promise<boolean> {
    const { actions } = this.#options
    const batch = [...this.#pushes.values()]
    for (const push of batch) {
      if (signal.aborted || !(await actions.push(push, signal))) return false
    }
    if (!(await actions.flush(signal))) return false
    const pushed = batch.filter((push) => this.#pushes.get(push.key)?.serial === push.serial)
    for (const push of pushed) this.#pushes.delete(push.key)
    actions.drained(pushed.length)
    return true
  }
}
