import { NexusError } from '@nexus/errors'
import { type Clock, silentLogger, systemClock, type TimerHandle } from '@nexus/host'
import { openSession, type OpenSessionOptions, type Session } from './open-session.ts'

/** How a {@link SessionPool} keeps sessions. */
export interface SessionPoolOptions extends Omit<OpenSessionOptions, 'id'> {
  /** How many sessions are open at once, at least 1; default 100. */
  maxOpen?: number
  /** How long a session stays open that nothing uses, in milliseconds; default 60,000. */
  idleMs?: number
  /** For tests. */
  clock?: Clock
  /** For tests. */
  open?: (options: OpenSessionOptions) => Promise<Session>
}

/** How the end of a pool went. */
export interface PoolEnd {
  /** Sessions that were closed with their last commit. */
  closed: number
  /** Sessions whose close failed, or didn't come to its end in time. What their last commit holds is in the store. */
  failed: { id: string; error: Error }[]
}

interface Entry {
  id: string
  opening: Promise<Session>
  users: number
  /** Grows with each use: the smallest is the one that was used longest ago. */
  usedAt: number
  idle?: TimerHandle | undefined
  closing?: Promise<void>
  /** Told when nothing uses it any more. */
  unused?: () => void
}

const DEFAULT_MAX_OPEN = 100
const DEFAULT_IDLE_MS = 60_000

/**
 * Keeps the sessions of a server: opens one when it is wanted, closes it when nothing has used it for a while, and never has more
 * than so many open. Where all of them are in use, the next one waits.
 *
 * @see docs/guides/many-sessions.md
 */
export class SessionPool implements AsyncDisposable {
  readonly #options: Omit<OpenSessionOptions, 'id'>
  readonly #open: (options: OpenSessionOptions) => Promise<Session>
  readonly #maxOpen: number
  readonly #idleMs: number
  readonly #clock: Clock
  readonly #entries = new Map<string, Entry>()
  /** Those who wait for a place. */
  readonly #waiting: (() => void)[] = []
  #uses = 0
  #ending: Promise<PoolEnd> | undefined

  /** @throws NexusError `INVALID_ARGUMENT` for a number out of range */
  constructor(options: SessionPoolOptions = {}) {
    const {
      maxOpen = DEFAULT_MAX_OPEN,
      idleMs = DEFAULT_IDLE_MS,
      clock = systemClock,
      open = openSession,
      ...rest
    } = options
    if (!Number.isSafeInteger(maxOpen) || maxOpen < 1) throw invalid('maxOpen', 'must be a whole number from 1')
    if (!Number.isFinite(idleMs) || idleMs < 0) throw invalid('idleMs', 'must be a number of milliseconds from 0')
    this.#options = rest
    this.#open = open
    this.#maxOpen = maxOpen
    this.#idleMs = idleMs
    this.#clock = clock
  }

  /** Sessions that are open, or being opened or closed. */
  get size(): number {
    return this.#entries.size
  }

  /**
   * Works with a session, which stays open meanwhile. Several may use one session at the same time. One that was lost to another
   * host is opened anew by the next use.
   *
   * @throws what `openSession` and the work throw; `CLOSED` when the pool is closed
   */
  async use<T>(id: string, work: (session: Session) => T | Promise<T>): Promise<T> {
    for (;;) {
      const entry = await this.#take(id)
      try {
        const session = await entry.opening
        if (session.status().phase === 'running') return await work(session)
        await this.#close(entry, (lost) => lost.abandon())
      } finally {
        this.#giveBack(entry)
      }
    }
  }

  /**
   * Takes no more work, waits for what is under way, and closes all sessions, several at a time. What isn't closed when the time
   * is over is dropped as a killed process would drop it.
   *
   * @param timeoutMs for all of it; default 30,000
   */
  close({ timeoutMs = 30_000 }: { timeoutMs?: number } = {}): Promise<PoolEnd> {
    this.#ending ??= this.#end(timeoutMs)
    return this.#ending
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  /** An entry that counts this user; it may still be opening. */
  async #take(id: string): Promise<Entry> {
    for (let waited = false; ;) {
      this.#refuseClosed()
      const known = this.#entries.get(id)
      if (known === undefined) {
        if (this.#entries.size < this.#maxOpen) return this.#begin(id)
        await this.#room()
        waited = true
      } else if (known.closing !== undefined) {
        await known.closing
      } else {
        this.#use(known)
        // The place that it was woken for is another's.
        if (waited) this.#waiting.shift()?.()
        return known
      }
    }
  }

  #begin(id: string): Entry {
    const entry: Entry = { id, opening: this.#open({ ...this.#options, id }), users: 0, usedAt: 0 }
    this.#entries.set(id, entry)
    this.#use(entry)
    // Those who wait for it are told; it has no place here.
    entry.opening.catch(() => this.#forget(entry))
    return entry
  }

  #use(entry: Entry): void {
    entry.users += 1
    entry.usedAt = ++this.#uses
    if (entry.idle !== undefined) this.#clock.clearTimeout(entry.idle)
    entry.idle = undefined
  }

  #giveBack(entry: Entry): void {
    entry.users -= 1
    if (entry.users > 0) return
    entry.unused?.()
    if (entry.closing !== undefined || this.#ending !== undefined || this.#entries.get(entry.id) !== entry) return
    if (this.#waiting.length > 0) void this.#close(entry)
    else entry.idle = this.#clock.setTimeout(() => void this.#close(entry), this.#idleMs)
  }

  /** Resolves when there may be a place. */
  async #room(): Promise<void> {
    const idle = [...this.#entries.values()].filter(({ users, closing }) => users === 0 && closing === undefined)
    const oldest = idle.toSorted((a, b) => a.usedAt - b.usedAt)[0]
    if (oldest !== undefined) return await this.#close(oldest)
    await new Promise<void>((resolve) => this.#waiting.push(resolve))
  }

  /** Closes a session and frees its place. Never rejects: what became of it is logged. */
  async #close(entry: Entry, how = (session: Session): Promise<void> => session.close()): Promise<void> {
    entry.closing ??= entry.opening.then(how).catch((error: unknown) => {
      const { logger = silentLogger } = this.#options
      logger.warn({ err: error, session_id: entry.id }, 'an idle session could not be closed as it should')
    })
    await entry.closing
    this.#forget(entry)
  }

  #forget(entry: Entry): void {
    if (entry.idle !== undefined) this.#clock.clearTimeout(entry.idle)
    if (this.#entries.get(entry.id) === entry) this.#entries.delete(entry.id)
    this.#waiting.shift()?.()
  }

  #refuseClosed(): void {
    if (this.#ending === undefined) return
    throw new NexusError('CLOSED', 'the pool of sessions is closed and takes no more work', { op: 'session.pool' })
  }

  async #end(timeoutMs: number): Promise<PoolEnd> {
    for (const wake of this.#waiting.splice(0)) wake()
    const end: PoolEnd = { closed: 0, failed: [] }
    let timer: TimerHandle | undefined
    const late = new Promise<'late'>((resolve) => {
      timer = this.#clock.setTimeout(() => resolve('late'), timeoutMs)
    })
    const closeOne = async (entry: Entry): Promise<void> => {
      if (entry.idle !== undefined) this.#clock.clearTimeout(entry.idle)
      // One that doesn't open is nothing to close.
      const closed = entry.opening.then(
        (session) => unused(entry).then(() => session.close()),
        () => 'not open' as const,
      )
      try {
        const outcome = await Promise.race([closed, late])
        if (outcome === 'late') throw tooLate(entry, timeoutMs)
        if (outcome !== 'not open') end.closed += 1
      } catch (error) {
        end.failed.push({ id: entry.id, error: error as Error })
        // Also one that comes up later.
        const dropped = entry.opening.then((session) => session.abandon())
        await Promise.race([Promise.allSettled([dropped, closed]), late])
      }
      this.#forget(entry)
    }
    await Promise.all([...this.#entries.values()].map(closeOne))
    this.#clock.clearTimeout(timer as TimerHandle)
    return end
  }
}

async function unused(entry: Entry): Promise<void> {
  if (entry.users > 0) await new Promise<void>((resolve) => (entry.unused = resolve))
}

function tooLate({ id }: Entry, timeoutMs: number): NexusError {
  return new NexusError('ABORTED', `session ${id} was not closed within ${timeoutMs} ms`, {
    op: 'session.pool',
    key: id,
  })
}

function invalid(name: string, why: string): NexusError {
  return new NexusError('INVALID_ARGUMENT', `SessionPool: ${name} ${why}`, { op: 'session.pool', key: name })
}
