import { closeSync, fstatSync, unlinkSync, writeSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { fromSystemError, systemCode } from '@nexus/errors'
import type { Clock, TimerHandle } from '../time/clock.ts'
import type { Logger } from '../logger.ts'
import { LOCK_FILE, readLockFile, type LockHolder } from './lock-record.ts'
import { LOCK_REFRESH_MS } from './lock-verdict.ts'
import type { ProcessTable } from '../process/process-identity.ts'

/** A session's lock in the hands of this process. */
export interface SessionLock {
  readonly holder: LockHolder
  /** True once another process took it over, which can only happen after this one stood still for long. */
  readonly lost: boolean
  /** Tells the lock that its directory was renamed, e.g. set aside. */
  relocate(dir: string): void
  /** Gives the session free. Leaves a lock alone that isn't ours any more. Calling it again does nothing. */
  release(): void
  /** Stops refreshing and leaves the file as a killed process would: it counts as live until this process ends. */
  abandon(): void
}

// Locks in trees that have not been renamed into place yet, by inode.
const staged = new Map<string, HeldLock>()

/** The staged lock with this inode. */
export function heldLockOf(inode: string): HeldLock | undefined {
  return staged.get(inode)
}

/** Keeps a lock file fresh, and notices when it was replaced. */
export class HeldLock implements SessionLock {
  readonly holder: LockHolder
  readonly #fd: number
  readonly #inode: string
  readonly #clock: Clock
  readonly #logger: Logger
  readonly #processes: ProcessTable
  #onLost: (() => void) | undefined
  #path: string
  #timer: TimerHandle | undefined
  #open = true
  #lost = false
  #warned = false

  /** @param fd the lock file, open for writing; closed on release */
  constructor(
    path: string,
    fd: number,
    holder: LockHolder,
    context: { clock: Clock; logger: Logger; processes: ProcessTable },
    onLost: (() => void) | undefined,
  ) {
    this.#path = path
    this.#fd = fd
    this.holder = holder
    this.#clock = context.clock
    this.#logger = context.logger
    this.#processes = context.processes
    this.#onLost = onLost
    const stats = fstatSync(fd, { bigint: true })
    this.#inode = `${stats.dev}:${stats.ino}`
    this.#schedule()
  }

  get lost(): boolean {
    return this.#lost
  }

  /** Lets {@link heldLockOf} find it until it is relocated, released or lost. */
  stage(): void {
    staged.set(this.#inode, this)
  }

  /** The staged tree got its name: from now on losing the lock matters. */
  adopt(dir: string, onLost: (() => void) | undefined): void {
    this.relocate(dir)
    this.#onLost = onLost ?? this.#onLost
    staged.delete(this.#inode)
  }

  relocate(dir: string): void {
    this.#path = join(resolve(dir), LOCK_FILE)
  }

  release(): void {
    if (!this.#open) return
    try {
      if (readLockFile(this.#path)?.inode === this.#inode) unlinkSync(this.#path)
    } catch (error) {
      if (systemCode(error) !== 'ENOENT') throw fromSystemError(error, 'session.unlock', this.#path)
    } finally {
      this.#end()
    }
  }

  abandon(): void {
    this.#end()
  }

  #schedule(): void {
    this.#timer = this.#clock.setTimeout(() => this.#refresh(), LOCK_REFRESH_MS)
    this.#timer.unref()
  }

  #refresh(): void {
    if (!this.#open) return
    try {
      const fate = this.#fate()
      if (fate !== 'ours') {
        const wasStaged = staged.has(this.#inode)
        this.#end()
        // A staged tree that failed is simply removed, and its lock with it; a tree that was set aside has made room for
        // another one of ours.
        if (wasStaged || fate === 'superseded') return
        this.#lost = true
        this.#logger.error(
          { path: this.#path },
          "the session lock is another process's now, or gone: stop writing to it",
        )
        this.#onLost?.()
        return
      }
      // The first byte anew: the file system itself stamps the time, so that no clock of ours counts.
      writeSync(this.#fd, '{', 0)
      this.#warned = false
    } catch (error) {
      if (!this.#warned) this.#logger.warn({ err: error, path: this.#path }, 'the session lock could not be refreshed')
      this.#warned = true
    }
    this.#schedule()
  }

  #fate(): 'ours' | 'superseded' | 'lost' {
    // Taking over replaces the file, which leaves ours without a name. A network file system may keep a hidden name for
    // it, so look who is at the path, too.
    const nameless = fstatSync(this.#fd).nlink === 0
    const there = readLockFile(this.#path)
    if (there?.inode === this.#inode) return 'ours'
    if (there === undefined) return nameless ? 'lost' : 'ours'
    const self = this.#processes.self()
    const { holder } = there
    const isSelf =
      holder?.pid === self.pid &&
      holder.pidStart === self.pidStart &&
      holder.bootId === self.bootId &&
      holder.thread?.tid === self.thread?.tid
    if (!isSelf) return 'lost'
    // Our file still has a name, in the tree that was set aside: it is let go with that one.
    return nameless ? 'superseded' : 'ours'
  }

  #end(): void {
    if (!this.#open) return
    this.#open = false
    staged.delete(this.#inode)
    if (this.#timer !== undefined) this.#clock.clearTimeout(this.#timer)
    closeSync(this.#fd)
  }
}
