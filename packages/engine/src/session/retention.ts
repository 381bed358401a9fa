import { randomBytes } from 'node:crypto'
import { existsSync, lstatSync, renameSync } from 'node:fs'
import { join } from 'node:path'
import { sweep, type SweepClaim } from '@nexus/journal'
import { isNexusError, systemCode } from '@nexus/errors'
import {
  acquireSessionLock,
  type Clock,
  type Logger,
  readLockState,
  type SessionLock,
  silentLogger,
  Slices,
} from '@nexus/host'
import {
  ACTIVE_SEGMENT_PATH,
  CONVERSATION_PATH,
  isSessionId,
  JOURNAL_HEADER_PATH,
  META_PATH,
  TIMING_PATH,
} from '@nexus/durability/names'
import { namesIn, removeMachineRecord, removeSetAside, removeStagingDir, setAsideTrees } from '@nexus/durability'

/** Which sessions no sweep may touch, besides those that a live process holds. */
export interface RetentionGuards {
  /** The directory of the sessions. */
  root: string
  /** The session being opened. */
  currentId: string
  /** Whether the last snapshot of a session failed: then its local copy is the only whole one. */
  lastSnapshotFailed: (id: string) => boolean | Promise<boolean>
  clock: Clock
  logger: Logger
  signal?: AbortSignal | undefined
}

/** What {@link sweepSessions} goes by. */
export interface SweepSessionsOptions extends RetentionGuards {
  /** How long a session is kept after it was last used. 0 keeps everything. */
  retentionMs: number
  /** Whether the user set that time. If not, only sessions that a store holds as well are removed. */
  explicit: boolean
  /** Whether the newest state of a session is committed in a store. A rejection counts as no. */
  isCommitted: (id: string) => boolean | Promise<boolean>
}

const DAY_MS = 24 * 60 * 60 * 1000
const REMOVING_NAME = /^\.removing-([A-Za-z0-9][A-Za-z0-9_-]*)-[0-9a-f]{16}$/
// Rewritten or appended to in every turn; the directory's own time would change with every look at the lock.
const SIGNS_OF_USE = [META_PATH, ACTIVE_SEGMENT_PATH, JOURNAL_HEADER_PATH, TIMING_PATH, CONVERSATION_PATH]

/**
 * Removes sessions that were not used for long, with what the machine remembers of them, and says so by name. Never one
 * that a live process holds, the one being opened, or one whose last snapshot failed. A session that can't be removed is
 * logged and kept; so is one that the user set a time for and that must stay.
 *
 * A session is locked while it is removed, and renamed away first: another process finds it whole or not at all.
 *
 * @returns the ids of the removed sessions
 * @throws NexusError `LOCAL_IO` or `PERMISSION` when `root` can't be read; the abort reason of `signal`
 * @see docs/concepts/session.md
 */
export async function sweepSessions(options: SweepSessionsOptions): Promise<string[]> {
  const { root, retentionMs, clock, logger, signal } = options
  const removed: string[] = []
  if (retentionMs <= 0) return removed
  const usedBeforeMs = clock.now() - retentionMs
  const slices = new Slices({ signal })
  for (const name of namesIn(root, 'retention.sweep')) {
    await slices.rest()
    signal?.throwIfAborted()
    const leftover = REMOVING_NAME.exec(name)
    if (leftover !== null) await finishRemoval(join(root, name), leftover[1] as string, options)
    if (!isSessionId(name)) continue
    try {
      if (await removeIfDue(name, usedBeforeMs, options)) removed.push(name)
    } catch (error) {
      signal?.throwIfAborted()
      logger.warn({ err: error, session_id: name }, 'a session past its retention could not be removed')
    }
  }
  return removed
}

async function removeIfDue(id: string, usedBeforeMs: number, options: SweepSessionsOptions): Promise<boolean> {
  const { root, explicit, clock, logger } = options
  const dir = join(root, id)
  // A directory without any of a session's files may be anybody's.
  const isDue = (): boolean => (lastUseMs(dir) ?? Number.POSITIVE_INFINITY) < usedBeforeMs
  if (!isDue()) return false
  const keeping = await whyKept(id, options)
  if (keeping !== undefined) {
    if (explicit) logger.info({ session_id: id, why: keeping }, 'kept a session past its retention')
    return false
  }
  if (!explicit && !(await holds(options.isCommitted, id, logger))) return false
  const lock = await lockForRemoval(dir, clock)
  if (lock === undefined) return false
  try {
    // Somebody may have used it between the first look and the lock.
    if (!isDue()) return false
    const idleDays = Math.floor((clock.now() - (lastUseMs(dir) ?? 0)) / DAY_MS)
    const doomed = join(root, `.removing-${id}-${randomBytes(8).toString('hex')}`)
    renameSync(dir, doomed)
    lock.relocate(doomed)
    logger.info({ session_id: id, idle_days: idleDays, explicit }, 'removed a session past its retention')
    await finishRemoval(doomed, id, options)
    return true
  } finally {
    lock.release()
  }
}

/**
 * Removes the sealed journal segments that were not written to for `retainDays` days, of sessions under the same guards,
 * where a commit holds them.
 *
 * @param options.retainDays 0 keeps everything
 * @param options.committedSegments the segments that a session's newest commit names, by file name; undefined when its
 * newest state is not committed
 * @returns ids of the sessions that segments were removed from
 * @see docs/concepts/journal.md
 */
export async function sweepJournals(
  options: RetentionGuards & {
    retainDays: number
    committedSegments: (id: string) => Promise<SweepClaim['committed'] | undefined>
  },
): Promise<string[]> {
  const { root, retainDays, committedSegments, clock, logger, signal } = options
  return await sweep(root, retainDays, {
    clock,
    logger,
    ...(signal === undefined ? {} : { signal }),
    claim: async (id) => {
      if (!isSessionId(id) || (await whyKept(id, options)) !== undefined) return undefined
      // Held until its segments are gone: the session can't be opened meanwhile.
      const lock = await lockForRemoval(join(root, id), clock)
      if (lock === undefined) return undefined
      const committed = await committedSegments(id).catch(() => undefined)
      if (committed !== undefined) return { committed, release: () => lock.release() }
      lock.release()
      return undefined
    },
  })
}

/**
 * Removes trees that were set aside as older than the store, beyond the newest `count` of each session and after `days` days.
 * Never one with turns that the store never got, one that nothing is known of, or one that a live process holds.
 *
 * @returns the removed paths
 */
export async function sweepSetAside({
  root,
  count,
  days,
  clock,
  logger,
  signal,
}: Pick<RetentionGuards, 'root' | 'clock' | 'logger' | 'signal'> & { count: number; days: number }): Promise<string[]> {
  const removed: string[] = []
  const kept = new Map<string, number>()
  for (const { path, sessionId, note } of setAsideTrees(root)) {
    signal?.throwIfAborted()
    if (note === undefined || note.forked || readLockState(path) === 'live') continue
    const newer = kept.get(sessionId) ?? 0
    kept.set(sessionId, newer + 1)
    if (newer < count || clock.now() - note.setAsideAtMs < days * DAY_MS) continue
    try {
      await removeSetAside(path)
      removed.push(path)
      logger.info({ session_id: sessionId, path }, 'removed a tree that was set aside; the store holds its turns')
    } catch (error) {
      logger.warn({ err: error, session_id: sessionId, path }, 'a tree that was set aside could not be removed')
    }
  }
  return removed
}

/** Why a session must stay, whatever its age; undefined when it may go. */
async function whyKept(
  id: string,
  { root, currentId, lastSnapshotFailed, logger }: RetentionGuards,
): Promise<string | undefined> {
  if (id === currentId) return 'it is being opened'
  if (readLockState(join(root, id)) === 'live') return 'a live process holds it'
  try {
    return (await lastSnapshotFailed(id)) ? 'its last snapshot failed: only this disk has its newest turns' : undefined
  } catch (error) {
    logger.debug({ err: error, session_id: id }, 'what the store has of a session could not be told')
    return 'whether its last snapshot failed is not known'
  }
}

async function holds(isCommitted: SweepSessionsOptions['isCommitted'], id: string, logger: Logger): Promise<boolean> {
  try {
    return await isCommitted(id)
  } catch (error) {
    logger.debug({ err: error, session_id: id }, 'kept a session that the store could not be asked about')
    return false
  }
}

/** Undefined when somebody else has it, or it is gone. */
async function lockForRemoval(dir: string, clock: Clock): Promise<SessionLock | undefined> {
  try {
    // Quiet: that a session past its retention was once killed is no news.
    return await acquireSessionLock(dir, { transport: 'retention', clock, logger: silentLogger })
  } catch (error) {
    if (isNexusError(error, 'LOCKED') || isNexusError(error, 'NOT_FOUND')) {
      return undefined
    }
    throw error
  }
}

/** The record first: while the files are there, the next sweep comes back for both. */
async function finishRemoval(doomed: string, id: string, { root, logger }: RetentionGuards): Promise<void> {
  try {
    // Begun again under the same id, the session has a record of its own.
    if (!existsSync(join(root, id))) await removeMachineRecord(root, id)
    await removeStagingDir(doomed)
  } catch (error) {
    logger.warn(
      { err: error, session_id: id, path: doomed },
      'a removed session left files behind; the next sweep tries again',
    )
  }
}

/** When a session was last used; undefined when it holds none of the files that every session has. */
function lastUseMs(dir: string): number | undefined {
  const times = SIGNS_OF_USE.map((path) => mtimeOf(join(dir, path))).filter((time) => time !== undefined)
  return times.length === 0 ? undefined : Math.max(...times)
}

function mtimeOf(path: string): number | undefined {
  try {
    return lstatSync(path, { throwIfNoEntry: false })?.mtimeMs
  } catch (error) {
    if (systemCode(error) === 'ENOTDIR') return undefined
    throw error
  }
}
