import type { Clock, Failpoint, Logger } from '@nexus/host'
import type { CommitId } from './core/commit-facts.ts'
import { type KeepPolicy, reclaim } from './core/reclaim.ts'
import { type KeepOptions, keepPolicy } from './keep.ts'
import { SessionCommits } from './session-commits.ts'
import type { SessionObjects } from './store/session-objects.ts'
import { SessionReclaimStore } from './store/write/reclaim-store.ts'

const EVERY = 32
const MAX_WRITES = 100

/** Takes old commits of one session away, now and then, behind the commits of its owner. */
export class SessionReclaim {
  readonly #store: SessionReclaimStore
  readonly #policy: KeepPolicy
  readonly #clock: Clock
  readonly #logger: Logger
  readonly #life = new AbortController()
  #running: Promise<void> | undefined
  #from: number | undefined

  constructor(
    objects: SessionObjects,
    { clock, logger, keep, failpoint }: { clock: Clock; logger: Logger; keep: KeepOptions; failpoint: Failpoint },
  ) {
    const { signal } = this.#life
    const commits = new SessionCommits(objects)
    commits.signal = signal
    this.#store = new SessionReclaimStore(commits, objects, { clock, signal, failpoint })
    this.#policy = keepPolicy(keep)
    this.#clock = clock
    this.#logger = logger
  }

  /** A commit landed: at every 32nd, reclaim begins. Never rejects, and is not waited for. */
  committed(head: CommitId): void {
    if (head.generation % EVERY !== 0 || this.#running !== undefined || this.#life.signal.aborted) return
    this.#running = this.#run(head).finally(() => (this.#running = undefined))
  }

  /** Waits so long for what is under way, and ends it. */
  async end(limitMs: number): Promise<void> {
    if (this.#running === undefined) return this.#life.abort()
    let timer: unknown
    const late = new Promise<void>((resolve) => {
      timer = this.#clock.setTimeout(resolve, limitMs)
    })
    await Promise.race([this.#running, late])
    this.#clock.clearTimeout(timer as never)
    this.#life.abort()
    await this.#running
  }

  async #run(head: CommitId): Promise<void> {
    const from = this.#from === undefined ? {} : { from: this.#from }
    try {
      const options = { policy: this.#policy, nowMs: this.#clock.now(), maxWrites: MAX_WRITES, ...from }
      this.#from = (await reclaim(this.#store, head, options)) ?? this.#from
    } catch (error) {
      if (this.#life.signal.aborted) return
      this.#logger.warn({ err: error }, 'old commits could not be taken away; a later run will')
    }
  }
}
