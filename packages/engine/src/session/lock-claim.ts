import nodeFs, {
  closeSync,
  constants,
  fstatSync,
  openSync,
  readdirSync,
  renameSync,
  unlinkSync,
  writeSync,
} from 'node:fs'
import { join } from 'node:path'
import { fromSystemError, NexusError, systemCode } from '@nexus/errors'
import { engineTempName } from './atomic-write.ts'
import { LOCK_FILE, readLockFile, type LockFile } from './lock-record.ts'

/** The part of `node:fs` that claiming uses and a file system may lack. */
export type LockFs = Pick<typeof nodeFs, 'linkSync'>

const CLAIM_PREFIX = '.nexus-tmp-lock-'
const LINKLESS: readonly string[] = ['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EMLINK']
const LOCK_MODE = 0o600
const OPEN_NEW = constants.O_RDWR | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW

/**
 * How a session directory decides who holds it, so that of any number of processes at most one wins, and none can be
 * stuck for ever, whichever of them dies where.
 *
 * Holders form a chain. The first is `session.lock`; the successor of a lock is the file whose name is made from that
 * lock's identity. Whoever wants to take over from the last one of the chain, if that one is dead, creates its successor,
 * which only one process can do, since it is created only if absent and with its whole content. There is nothing else to
 * win, and no guard that could go stale: a successor whose process died is just a dead lock that has a successor itself.
 *
 * The winner then shortens the chain by renaming its own file to `session.lock`, *before* the dead ones in between are
 * removed. Who walked an older chain may therefore find a successor missing and create it again; for that reason a
 * creation counts only if `session.lock` is still the one that the walk began at. If it is, nothing was removed yet, so
 * nothing was missing.
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

  /** The locks from `session.lock` to the last successor; empty when the session is free. */
  walk(): LockFile[] {
    const chain: LockFile[] = []
    for (let file = readLockFile(this.#lockPath); file !== undefined; file = readLockFile(this.#successorOf(file))) {
      if (chain.some((earlier) => earlier.identity === file?.identity)) break
      chain.push(file)
    }
    return chain
  }

  /** Whether the chain still begins where `chain` did; if so, `chain` was whole when it was walked. */
  unmoved(chain: readonly LockFile[]): boolean {
    return readLockFile(this.#lockPath)?.identity === chain[0]?.identity
  }

  /**
   * Tries to become the holder after the last lock of `chain`, which is dead, or the first one when the chain is empty.
   *
   * @returns false when another process was faster; walk again
   */
  claim(candidate: LockCandidate, chain: readonly LockFile[]): boolean {
    const last = chain.at(-1)
    if (last === undefined) return candidate.putAt(this.#lockPath, this.#fs)
    const successor = this.#successorOf(last)
    if (!candidate.putAt(successor, this.#fs)) return false
    try {
      if (!this.unmoved(chain)) {
        unlinkSync(successor)
        return false
      }
      renameSync(successor, this.#lockPath)
    } catch (error) {
      // Gone: while this process stood still, others judged it dead and went past it.
      if (systemCode(error) === 'ENOENT') return false
      // Left behind, it would count as ours for as long as this process lives, and nobody could take the session.
      quietly(() => unlinkSync(successor))
      throw error instanceof NexusError ? error : fromSystemError(error, 'lock.take', this.#lockPath)
    }
    for (const dead of chain.slice(0, -1)) removeIfThere(this.#successorOf(dead))
    return true
  }

  /** Removes what dead processes left of their attempts. Called by the holder: nothing reachable is among it. */
  tidy(isDead: (file: LockFile) => boolean): void {
    for (const name of readdirSync(this.#dir)) {
      if (!name.startsWith(CLAIM_PREFIX)) continue
      const path = join(this.#dir, name)
      const file = readLockFile(path)
      if (file !== undefined && isDead(file)) removeIfThere(path)
    }
  }

  #successorOf(file: LockFile): string {
    return join(this.#dir, CLAIM_PREFIX + file.identity)
  }
}

/** A lock file with its whole content that has no name which counts yet. */
export class LockCandidate {
  readonly #content: string
  readonly #temp: string
  #fd: number

  /** Writes the file under a temporary name in `dir`. */
  constructor(dir: string, content: string) {
    this.#content = content
    this.#temp = join(dir, engineTempName().replace('.nexus-tmp-', CLAIM_PREFIX))
    this.#fd = createWith(this.#temp, content)
  }

  /** Open for reading and writing; the lock's owner keeps it. */
  get fd(): number {
    return this.#fd
  }

  /** When the file was written, by the clock of its file system. */
  get writtenAtMs(): number {
    return fstatSync(this.#fd).mtimeMs
  }

  /** Gives the file a name if nothing has it. The content appears with the name: nobody ever sees half of it. */
  putAt(path: string, fs: LockFs): boolean {
    try {
      fs.linkSync(this.#temp, path)
      return true
    } catch (error) {
      const code = systemCode(error) ?? ''
      if (code === 'EEXIST') return false
      if (!LINKLESS.includes(code)) throw fromSystemError(error, 'lock.take', path)
    }
    // No hard links here: the name comes first and the content in the next system call, which is why a reader that
    // finds an empty lock looks a second time.
    try {
      const fd = createWith(path, this.#content)
      closeSync(this.#fd)
      this.#fd = fd
      return true
    } catch (error) {
      if (error instanceof NexusError && systemCode(error.cause) === 'EEXIST') return false
      throw error
    }
  }

  /** Removes the temporary name. One that stays is removed by the next holder. */
  untie(): void {
    quietly(() => unlinkSync(this.#temp))
  }

  close(): void {
    closeSync(this.#fd)
  }
}

/** Creates a file that must not exist, with this content. Returns it open for reading and writing. */
export function createWith(path: string, content: string): number {
  let fd: number | undefined
  try {
    fd = openSync(path, OPEN_NEW, LOCK_MODE)
    writeSync(fd, content)
    return fd
  } catch (error) {
    if (fd !== undefined) {
      closeSync(fd)
      removeIfThere(path)
    }
    throw fromSystemError(error, 'lock.write', path)
  }
}

function removeIfThere(path: string): void {
  try {
    unlinkSync(path)
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
