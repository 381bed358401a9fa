import { join, resolve } from 'node:path'
import { NexusError } from '@nexus/errors'
import { systemClock, type Clock } from '../time/clock.ts'
import { silentLogger, type Logger } from '../logger.ts'
import { createWith, LockCandidate, LockChain } from './lock-claim.ts'
import { LOCK_FILE, readLockFile, serializeHolder, type LockFile, type LockFs, type LockHolder } from './lock-record.ts'
import { judgeLock, LOCK_STALE_MS, LOCK_WATCH_MS } from './lock-verdict.ts'
import { HeldLock, heldLockOf, type SessionLock } from './held-lock.ts'
import { systemProcesses, type ProcessTable } from '../process/process-identity.ts'
import { SessionLockedError } from './session-locked-error.ts'

/** How a session is locked. */
export interface SessionLockOptions {
  /** What this process is, for the people who find the lock: `cli`, `embedded`, ... */
  transport: string
  clock?: Clock
  logger?: Logger
  /**
   * Called once when the lock turns out to be another's: this process stood still so long that it counted as dead. It must
   * stop writing to the session.
   */
  onLost?: () => void
  /** How long to wait for a live holder to let go, in milliseconds. Default 0: not at all. */
  waitMs?: number
  signal?: AbortSignal | undefined
  processes?: ProcessTable
  fs?: LockFs
}

const GARBAGE_LOOK_MS = 50
const WAIT_LOOK_MS = 100

/**
 * Takes the lock of an existing session directory. Of any number of processes that try at once, at most one gets it. A
 * lock whose holder is dead is taken over, with a warning.
 *
 * At once in most cases; a garbage lock costs 50 ms, and the silent lock of another container 7.5 s of watching.
 *
 * @throws SessionLockedError when a live process or thread holds it for longer than `waitMs`, this one included
 * @throws NexusError `NOT_FOUND` when there is no such directory, `PERMISSION`, `LOCAL_IO`
 * @see docs/concepts/session.md
 */
export async function acquireSessionLock(dir: string, options: SessionLockOptions): Promise<SessionLock> {
  const { clock = systemClock, waitMs = 0, signal } = options
  const startedAtMs = clock.now()
  for (;;) {
    const waitedMs = clock.now() - startedAtMs
    try {
      return await acquireOnce(resolve(dir), options, waitedMs)
    } catch (error) {
      if (!(error instanceof SessionLockedError) || waitedMs >= waitMs) throw error
      await sleep(Math.min(WAIT_LOOK_MS, waitMs - waitedMs), clock, signal)
    }
  }
}

async function acquireOnce(sessionDir: string, options: SessionLockOptions, waitedMs: number): Promise<SessionLock> {
  const { clock = systemClock, logger = silentLogger, processes = systemProcesses } = options
  const chain = new LockChain(sessionDir, options.fs)
  const holder = newHolder(options, processes, clock)
  const candidate = new LockCandidate(sessionDir, serializeHolder(holder), options.fs)
  let taken = false
  try {
    const abandoned = await take(sessionDir, chain, candidate, { ...options, processes, clock }, waitedMs)
    taken = true
    if (abandoned !== undefined) {
      const was = abandoned.file.holder
      logger.warn(
        { session_dir: sessionDir, holder_pid: was?.pid, holder_transport: was?.transport, why: abandoned.why },
        'took over a session that was not closed',
      )
    }
  } finally {
    candidate.untie()
    if (!taken) candidate.close()
  }
  const lock = new HeldLock(
    join(sessionDir, LOCK_FILE),
    candidate.fd,
    holder,
    { clock, logger, processes },
    options.onLost,
  )
  tidy(chain, candidate.writtenAtMs, processes, logger)
  return lock
}

function tidy(chain: LockChain, nowMs: number, processes: ProcessTable, logger: Logger): void {
  try {
    chain.tidy((file) => {
      // A nameless candidate that is being written right now is empty, too.
      if (file.holder === undefined) return nowMs - file.mtimeMs > LOCK_STALE_MS
      return judgeLock(file, processes, nowMs).state !== 'live'
    })
  } catch (error) {
    logger.debug({ err: error }, 'what dead processes left of their locks could not be removed')
  }
}

/** Waits until the lock is ours; returns the dead one that it was taken over from. */
async function take(
  sessionDir: string,
  chain: LockChain,
  candidate: LockCandidate,
  { signal, processes, clock }: { signal?: AbortSignal | undefined; processes: ProcessTable; clock: Clock },
  waitedMs: number,
): Promise<{ file: LockFile; why: string } | undefined> {
  const watched = new Set<string>()
  for (;;) {
    signal?.throwIfAborted()
    const result = chain.contend(candidate, (file) => {
      const verdict = judgeLock(file, processes, candidate.writtenAtMs)
      const watchMs = watched.has(sightOf(file)) ? 0 : watchTimeMs(file, verdict.state)
      return { ...verdict, watchMs }
    })
    if (result.outcome === 'taken') return result.from
    if (result.outcome === 'held') {
      const holder = result.by.holder as LockHolder
      throw new SessionLockedError(sessionDir, holder, describe(sessionDir, holder, processes), clock.now(), waitedMs)
    }
    await sleep(result.watchMs, clock, signal)
    watched.add(sightOf(result.file))
  }
}

/** Differs when the lock is another one, or was refreshed. */
function sightOf(file: LockFile): string {
  return `${file.identity}@${file.mtimeMs}`
}

function watchTimeMs(file: LockFile, state: 'live' | 'dead' | 'silent'): number {
  if (state === 'silent') return LOCK_WATCH_MS
  return state === 'dead' && file.holder === undefined ? GARBAGE_LOOK_MS : 0
}

/**
 * Puts this process's lock into a tree that is still being put together beside its place, so that it is locked from the
 * moment it appears. The lock is kept fresh from now on; it ends by itself when the staged tree is removed.
 *
 * @see adoptSessionLock
 */
export async function writeLockFile(stagingDir: string, options: SessionLockOptions): Promise<void> {
  const { clock = systemClock, logger = silentLogger, processes = systemProcesses } = options
  const holder = newHolder(options, processes, clock)
  const path = join(resolve(stagingDir), LOCK_FILE)
  // Registers itself by the file's inode, which a rename of the directory doesn't change.
  const lock = new HeldLock(
    path,
    createWith(path, serializeHolder(holder)),
    holder,
    { clock, logger, processes },
    options.onLost,
  )
  lock.stage()
}

/**
 * Takes over the lock that {@link writeLockFile} put into a tree, after that tree was renamed to `dir`.
 *
 * @param options `onLost` replaces the one that the lock was written with
 * @throws NexusError `PRECONDITION` when the tree carries no lock of this process
 */
export async function adoptSessionLock(
  dir: string,
  options: Pick<SessionLockOptions, 'onLost'> = {},
): Promise<SessionLock> {
  const path = join(resolve(dir), LOCK_FILE)
  const file = readLockFile(path)
  const lock = file === undefined ? undefined : heldLockOf(file.inode)
  if (lock === undefined) {
    throw new NexusError('PRECONDITION', `${dir} carries no lock that this process put there before the rename`, {
      op: 'session.lock',
      key: path,
    })
  }
  lock.adopt(dir, options.onLost)
  return lock
}

/**
 * Looks at the lock of a session, or of a tree being put together, and changes nothing. `live` when in doubt: a lock of
 * another container counts as dead only after ten times the time that a boot would wait.
 */
export function readLockState(
  dir: string,
  options: { clock?: Pick<Clock, 'now'>; processes?: ProcessTable } = {},
): 'free' | 'live' | 'dead' {
  const { clock = systemClock, processes = systemProcesses } = options
  const last = new LockChain(resolve(dir)).last()
  if (last === undefined) return 'free'
  const verdict = judgeLock(last, processes, clock.now())
  if (verdict.state !== 'silent') return verdict.state
  return clock.now() - last.mtimeMs > 10 * LOCK_STALE_MS ? 'dead' : 'live'
}

function newHolder(options: SessionLockOptions, processes: ProcessTable, clock: Clock): LockHolder {
  return { ...processes.self(), startedAt: new Date(clock.now()).toISOString(), transport: options.transport }
}

function describe(sessionDir: string, holder: LockHolder, processes: ProcessTable): string {
  const self = processes.self()
  const lockPath = join(sessionDir, LOCK_FILE)
  const since = `${holder.transport || 'unknown transport'}, since ${holder.startedAt || 'an unknown time'}`
  if (holder.pidNamespace !== self.pidNamespace) {
    return (
      `process ${holder.pid} of another container (${since}), which still refreshes ${lockPath}; ` +
      `if that container is gone, try again in ${LOCK_STALE_MS / 1000} s`
    )
  }
  if (holder.pid === self.pid && holder.thread?.tid !== self.thread?.tid) {
    return `another thread of this process (${since}): close it there first`
  }
  if (holder.pid === self.pid) return `this very process (${since}): close it before opening it again`
  return `process ${holder.pid} (${since}): stop that process, or open another session; the lock is ${lockPath}`
}

function sleep(delayMs: number, clock: Clock, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolvePromise, reject) => {
    const onAbort = (): void => {
      clock.clearTimeout(timer)
      reject(signal?.reason as Error)
    }
    const timer = clock.setTimeout(() => {
      signal?.removeEventListener('abort', onAbort)
      resolvePromise()
    }, delayMs)
    signal?.addEventListener('abort', onAbort, { once: true })
  })
}
