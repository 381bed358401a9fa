import { mkdir } from 'node:fs/promises'
import { isNexusError, NexusError } from '@nexus/errors'
import { acquireSessionLock, type Clock, type Logger } from '@nexus/host'

/** How {@link withSharedStoreLock} waits. */
export interface SharedStoreLockOptions {
  /** Bounds the wait. */
  lockMs: number
  clock: Clock
  logger: Logger
  signal?: AbortSignal | undefined
}

const POLL_MS = 25

/** Holders in this process wait for each other here, in order, and bother the file system once each. */
const lanes = new Map<string, Promise<void>>()

/**
 * Runs the work while nothing else on this machine, in this process or another, holds the same lock directory.
 *
 * @param lockDir created when missing
 * @throws `UNAVAILABLE` when it isn't free in time
 */
export async function withSharedStoreLock<T>(
  lockDir: string,
  options: SharedStoreLockOptions,
  work: () => Promise<T>,
): Promise<T> {
  const before = lanes.get(lockDir) ?? Promise.resolve()
  const turn = before.then(() => lockAndRun(lockDir, options, work))
  const settled = turn.then(ignore, ignore)
  lanes.set(lockDir, settled)
  void settled.then(() => {
    if (lanes.get(lockDir) === settled) lanes.delete(lockDir)
  })
  return turn
}

async function lockAndRun<T>(lockDir: string, options: SharedStoreLockOptions, work: () => Promise<T>): Promise<T> {
  const { clock, logger, lockMs, signal } = options
  await mkdir(lockDir, { recursive: true, mode: 0o700 })
  const givesUpAtMs = clock.now() + lockMs
  for (;;) {
    signal?.throwIfAborted()
    try {
      const lock = await acquireSessionLock(lockDir, { transport: 'shared-store', clock, logger, signal })
      try {
        return await work()
      } finally {
        lock.release()
      }
    } catch (error) {
      if (!isNexusError(error, 'LOCKED')) throw error
      if (clock.now() >= givesUpAtMs) {
        throw new NexusError('UNAVAILABLE', `another process copies the same shared store for more than ${lockMs} ms`, {
          op: 'durability.shared-lock',
          key: lockDir,
          cause: error,
        })
      }
    }
    await pause(clock, signal)
  }
}

function pause(clock: Clock, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    const go = (): void => {
      clock.clearTimeout(timer)
      signal?.removeEventListener('abort', go)
      resolve()
    }
    const timer = clock.setTimeout(go, POLL_MS)
    signal?.addEventListener('abort', go, { once: true })
  })
}

function ignore(): void {}
