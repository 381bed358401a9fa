import { closeSync, fstatSync, unlinkSync, writeSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { fromSystemError, systemCode } from '@nexus/errors'
import type { Clock, TimerHandle } from '../clock.ts'
import type { Logger } from '../logger.ts'
import { LOCK_FILE, readLockFile, type LockHolder } from './lock-record.ts'
import { LOCK_REFRESH_MS } from './lock-verdict.ts'
import type { ProcessTable } from './process-identity.ts'

/** A session's lock in the hands of this process. */
export interface SessionLock {
  readonly holder: LockHolder
  /** True once another process took it over, which can only happen after this one stood still for long. */
  readonly lost: boolean
  /** Tells the lock that its directory was renamed, e.g. set aside. */
  relocate(dir: string): void
  /** Gives the session free. Leaves a lock alone that isn't ours any more. Calling it again does nothing. */
  release(): void
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
  readonly #onLost: (() => void) | undefined
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

  relocate(dir: string): void {
    this.#path = join(resolve(dir), LOCK_FILE)
    staged.delete(this.#inode)
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

  #schedule(): void {
    this.#timer = this.#clock.setTimeout(() => this.#refresh(), LOCK_REFRESH_MS)
    this.#timer.unref()
  }

  #refresh(): void {
    if (!this.#open) return
    try {
      if (this.#replaced()) {
        const wasStaged = staged.has(this.#inode)
        this.#end()
        // A staged tree that failed is simply removed, and its lock with it.
        if (wasStaged) return
        this.#lost = true
        this.#logger.error(
          { path: this.#path },
          'another process took over this session; this one must stop writing to it',
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

  #replaced(): boolean {
    // Taking over replaces the file, which leaves ours without a name. Network file systems may keep a hidden name for it,
    // so look who is at the path, too; one of ours there is a tree that was put in place of the one set aside.
    if (fstatSync(this.#fd).nlink === 0) return true
    const there = readLockFile(this.#path)
    if (there === undefined || there.inode === this.#inode) return false
    const self = this.#processes.self()
    return (
      there.holder?.pid !== self.pid || there.holder.pidStart !== self.pidStart || there.holder.bootId !== self.bootId
    )
  }

  #end(): void {
    if (!this.#open) return
    this.#open = false
    staged.delete(this.#inode)
    if (this.#timer !== undefined) this.#clock.clearTimeout(this.#timer)
    closeSync(this.#fd)
  }
}
