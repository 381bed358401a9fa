/** Work of a {@link SnapshotSlot}. */
export interface SlotWork<Request, Outcome> {
  /** Takes one snapshot for all requests of the batch. Never rejects: a failure is an outcome. */
  run(batch: readonly Request[]): Promise<Outcome>
  /** Tells the world, when the slot is free again and before the batch's callers go on. Never rejects. */
  announce(outcome: Outcome): Promise<void>
}

interface Batch<Request, Outcome> {
  requests: Request[]
  promise: Promise<Outcome>
  resolve: (outcome: Outcome) => void
  reject: (bug: unknown) => void
}

/**
 * The one place where snapshots of a session are taken: they never interleave, and all requests that arrive while one
 * runs share the next. A request can't join the one that runs: what it wants stored may have been written after that
 * one's walk.
 *
 * @see docs/concepts/durability.md
 */
export class SnapshotSlot<Request, Outcome> {
  readonly #work: SlotWork<Request, Outcome>
  #running: Batch<Request, Outcome> | undefined
  #next: Batch<Request, Outcome> | undefined

  constructor(work: SlotWork<Request, Outcome>) {
    this.#work = work
  }

  /** What the running snapshot was asked for, or undefined when the slot is free. */
  get running(): readonly Request[] | undefined {
    return this.#running?.requests
  }

  /** Resolves with the outcome of a snapshot that started after this call, once it has been announced. */
  request(request: Request): Promise<Outcome> {
    const batch = (this.#next ??= openBatch<Request, Outcome>())
    batch.requests.push(request)
    if (this.#running === undefined) void this.#drive(batch)
    return batch.promise
  }

  /** Resolves when nothing runs and nothing waits. */
  async idle(): Promise<void> {
    for (;;) {
      const pending = this.#next ?? this.#running
      if (pending === undefined) return
      await pending.promise.catch(() => undefined)
    }
  }

  async #drive(batch: Batch<Request, Outcome>): Promise<void> {
    this.#next = undefined
    this.#running = batch
    try {
      const outcome = await this.#work.run(batch.requests).finally(() => this.#free())
      await this.#work.announce(outcome)
      batch.resolve(outcome)
    } catch (error) {
      batch.reject(error)
    }
  }

  /** Before the announcement: a handler of the result may ask for a snapshot and wait for it. */
  #free(): void {
    this.#running = undefined
    if (this.#next !== undefined) void this.#drive(this.#next)
  }
}

function openBatch<Request, Outcome>(): Batch<Request, Outcome> {
  const requests: Request[] = []
  let resolve!: (outcome: Outcome) => void
  let reject!: (bug: unknown) => void
  const promise = new Promise<Outcome>((settle, fail) => {
    resolve = settle
    reject = fail
  })
  return { requests, promise, resolve, reject }
}
