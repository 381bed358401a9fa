import nodeFs from 'node:fs'
import { join } from 'node:path'
import { fromSystemError, NexusError, systemCode } from '@nexus/errors'
import { engineTempName } from '../files/temp-name.ts'
import { LOCK_FILE, readLockFile, type LockFile, type LockFs } from './lock-record.ts'
import type { LockVerdict } from './lock-verdict.ts'

/** How an attempt to become the holder ended. */
export type ClaimOutcome =
  | { outcome: 'taken'; from?: { file: LockFile; why: string } }
  | { outcome: 'held'; by: LockFile }
  /** The last lock must be looked at again later before anything can be said. */
  | { outcome: 'watch'; file: LockFile; watchMs: number }

/** What is to be done about the last lock of the chain: its verdict, and how long to watch it before believing that. */
export type Judge = (file: LockFile) => LockVerdict & { watchMs: number }

const CLAIM_PREFIX = '.nexus-tmp-lock-'
const LINKLESS: readonly string[] = ['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EMLINK']
const LOCK_MODE = 0o600
const { O_RDWR, O_CREAT, O_EXCL, O_NOFOLLOW } = nodeFs.constants
// Each further round means that another process got somewhere; so many of them are no coincidence.
const MAX_ROUNDS = 1_000

/**
 * How a session directory decides who holds it, so that of any number of processes at most one wins, and none is
 * stuck, whichever of them dies where.
 *
 * Holders form a chain. The first is `session.lock`; the successor of a lock is the file whose name is made from that
 * lock's identity. A process that takes over from the last one of the chain, if that one is dead, creates its successor,
 * which only one process can do, since it is created only if absent and with its whole content. There is nothing else to
 * win, and no guard that could go stale: a successor whose process died is just a dead lock that has a successor itself.
 *
 * The winner then shortens the chain by renaming its own file to `session.lock`, *before* the dead ones in between are
 * removed ({@link LockChain.tidy}). Who walked an older chain may therefore find a successor missing and create it again;
 * for that reason a creation counts only if `session.lock` is still the one that the walk began at. If it is, nothing was
 * removed yet, so nothing was missing.
 */
export class LockChain {
  readonly #dir: string
  readonly #lockPath: string
  readonly #fs: LockFs

  constructor(dir: string, fs: LockFs = nodeFs) {
    this.#dir = dir
    this.#lockPath = join(dir, LOCK_FILE)
    this.#fs = fs
  }

  /**
   * Tries to become the holder, again as long as other processes get in between.
   *
   * @throws NexusError `LOCKED` when they never stop, `NOT_FOUND`, `PERMISSION`, `LOCAL_IO`
   */
  contend(candidate: LockCandidate, judge: Judge): ClaimOutcome {
    for (let round = 0; round < MAX_ROUNDS; round++) {
      const chain = this.#walk()
      const last = chain.at(-1)
      if (last === undefined) {
        if (candidate.putAt(this.#lockPath)) return { outcome: 'taken' }
        continue
      }
      const verdict = judge(last)
      if (verdict.state === 'live') {
        // The end of a chain that is being shortened may be an attempt that came to nothing.
        if (this.#unmoved(chain)) return { outcome: 'held', by: last }
        continue
      }
      if (verdict.watchMs > 0) return { outcome: 'watch', file: last, watchMs: verdict.watchMs }
      if (this.#succeed(candidate, chain, last)) return { outcome: 'taken', from: { file: last, why: verdict.why } }
    }
    throw new NexusError('LOCKED', `too many processes try to open ${this.#dir}`, {
      op: 'session.lock',
      retryable: true,
    })
  }

  /** The last lock of the chain, undefined when the session is free. */
  last(): LockFile | undefined {
    return this.#walk().at(-1)
  }

  /** The locks from `session.lock` to the last successor; empty when the session is free. */
  #walk(): LockFile[] {
    const chain: LockFile[] = []
    for (let file = this.#read(this.#lockPath); file !== undefined; file = this.#read(this.#successorOf(file))) {
      if (chain.some((earlier) => earlier.identity === file?.identity)) break
      chain.push(file)
    }
    return chain
  }

  /** Whether the chain still begins where `chain` did; if so, `chain` was whole when it was walked. */
  #unmoved(chain: readonly LockFile[]): boolean {
    return this.#read(this.#lockPath)?.identity === chain[0]?.identity
  }

  /** Tries to become the holder after the last lock of `chain`, which is dead. False: somebody else was faster. */
  #succeed(candidate: LockCandidate, chain: readonly LockFile[], last: LockFile): boolean {
    const fs = this.#fs
    const successor = this.#successorOf(last)
    if (!candidate.putAt(successor)) return false
    try {
      if (!this.#unmoved(chain)) {
        fs.unlinkSync(successor)
        return false
      }
      fs.renameSync(successor, this.#lockPath)
    } catch (error) {
      // Gone: while this process stood still, others judged it dead and went past it.
      if (systemCode(error) === 'ENOENT') return false
      // Left behind, it would count as ours for as long as this process lives, and the session could not be taken.
      quietly(() => fs.unlinkSync(successor))
      throw error instanceof NexusError ? error : fromSystemError(error, 'lock.take', this.#lockPath)
    }
    return true
  }

  /**
   * Removes what dead processes left of their attempts, the links of the old chain among them. For the holder, once it is
   * that: its lock is `session.lock` then, and nothing that leads on from there is dead.
   */
  tidy(isDead: (file: LockFile) => boolean): void {
    for (const name of this.#fs.readdirSync(this.#dir)) {
      if (!name.startsWith(CLAIM_PREFIX)) continue
      const path = join(this.#dir, name)
      const file = this.#read(path)
      if (file !== undefined && isDead(file)) removeIfThere(path, this.#fs)
    }
  }

  #read(path: string): LockFile | undefined {
    return readLockFile(path, this.#fs)
  }

  #successorOf(file: LockFile): string {
    return join(this.#dir, CLAIM_PREFIX + file.identity)
  }
}

/** A lock file with its whole content that has no name which counts yet. */
export class LockCandidate {
  readonly #content: string
  readonly #temp: string
  readonly #fs: LockFs
  #fd: number

  /** Writes the file under a temporary name in `dir`. */
  constructor(dir: string, content: string, fs: LockFs = nodeFs) {
    this.#content = content
    this.#fs = fs
    this.#temp = join(dir, engineTempName().replace('.nexus-tmp-', CLAIM_PREFIX))
    this.#fd = createWith(this.#temp, content, fs)
  }

  /** Open for reading and writing; the lock's owner keeps it. */
  get fd(): number {
    return this.#fd
  }

  /** When the file was written, by the clock of its file system. */
  get writtenAtMs(): number {
    return this.#fs.fstatSync(this.#fd).mtimeMs
  }

  /** Gives the file a name if nothing has it. The content appears with the name, whole. */
  putAt(path: string): boolean {
    try {
      this.#fs.linkSync(this.#temp, path)
      return true
    } catch (error) {
      const code = systemCode(error) ?? ''
      if (code === 'EEXIST') return false
      if (!LINKLESS.includes(code)) throw fromSystemError(error, 'lock.take', path)
    }
    // No hard links here: the name comes first and the content in the next system call, which is why a reader that
    // finds an empty lock looks a second time.
    try {
      const fd = createWith(path, this.#content, this.#fs)
      this.#fs.closeSync(this.#fd)
      this.#fd = fd
      return true
    } catch (error) {
      if (error instanceof NexusError && systemCode(error.cause) === 'EEXIST') return false
      throw error
    }
  }

  /** Removes the temporary name. One that stays is removed by the next holder. */
  untie(): void {
    quietly(() => this.#fs.unlinkSync(this.#temp))
  }

  close(): void {
    quietly(() => this.#fs.closeSync(this.#fd))
  }
}

/** Creates a file that must not exist, with this content. Returns it open for reading and writing. */
export function createWith(path: string, content: string, fs: LockFs = nodeFs): number {
  let fd: number | undefined
  try {
    fd = fs.openSync(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, LOCK_MODE)
    fs.writeSync(fd, content)
    return fd
  } catch (error) {
    if (fd !== undefined) {
      const open = fd
      quietly(() => fs.closeSync(open))
      quietly(() => fs.unlinkSync(path))
    }
    throw fromSystemError(error, 'lock.write', path)
  }
}

function removeIfThere(path: string, fs: LockFs): void {
  try {
    fs.unlinkSync(path)
  } catch (error) {
    if (systemCode(error) !== 'ENOENT') throw fromSystemError(error, 'lock.tidy', path)
  }
}

function quietly(cleanup: () => void): void {
  try {
    cleanup()
  } catch {
    // Whatever is left counts for nothing and is swept later.
  }
}
