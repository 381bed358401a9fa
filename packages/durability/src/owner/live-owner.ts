import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import process from 'node:process'
import { isNexusError } from '@nexus/errors'
import { type Clock, engineTempName, isRunning, type Logger, readLockState, systemProcesses } from '@nexus/host'
import type { ObjectStore } from '@nexus/objectstore'
import { defaultTimings } from '../durability-timings.ts'
import { sessionKeys } from '../tree/keys.ts'
import { readObject } from '../tree/small-object.ts'
import { findHead } from '../versioned/core/head-search.ts'
import { sessionRoot } from '../versioned/core/versioned-keys.ts'
import { hasChain } from '../versioned/refuse-chain.ts'
import { SessionCommits } from '../versioned/session-commits.ts'
import { SessionObjects } from '../versioned/store/session-objects.ts'
import { wasAbandoned } from './abandoned.ts'
import {
  judgeOwner,
  OWNER_MARKER_LIMIT_BYTES,
  type OwnerIdentity,
  type OwnerMarker,
  parseOwnerMarker,
} from './owner-marker.ts'
import { SessionOwnedError } from './session-owned-error.ts'

/** Who seems to have a session open, and how that shows. */
export interface LiveOwner {
  by: 'lock' | 'heartbeat' | 'commit'
  instanceId?: string | undefined
  host?: string | undefined
  pid?: number | undefined
  /** How long ago it last showed, by this machine's clock; 0 for a lock that is held. */
  ageMs: number
}

/** Which session is looked at, and by whom. */
export interface OwnerLook {
  store: ObjectStore
  sessionId: string
  /** An existing directory for a short-lived file. */
  scratchDir: string
  /** The caller: what it wrote itself shows no owner. */
  identity: OwnerIdentity
  /** Ms since the epoch. */
  nowMs: number
  /** Where the session may lie and be locked on this machine; left out by a caller that holds the lock. */
  sessionsRoot?: string | undefined
  signal?: AbortSignal | undefined
}

/** A head that is older shows no owner. */
const HEAD_FRESH_MS = 10 * 60_000

/**
 * Whether somebody seems to have a session open: its lock is held on this machine, its heartbeat is under five minutes old,
 * or its newest commit is under ten minutes old and doesn't end a run. An owner that ran on this host and is known to be gone
 * counts as gone. Advice and never safety: it goes by clocks.
 *
 * @returns undefined when nothing says so
 * @throws the store's error
 */
export async function looksLive(look: OwnerLook): Promise<LiveOwner | undefined> {
  const { sessionId, sessionsRoot } = look
  if (sessionsRoot !== undefined && readLockState(join(sessionsRoot, sessionId)) === 'live') {
    return { by: 'lock', ageMs: 0 }
  }
  return (await byHeartbeat(look)) ?? (await byHead(look))
}

/**
 * Refuses to go on over a live owner.
 *
 * @param options `force`: it is done all the same; `wayOut`: what the caller can do instead, as the end of a sentence
 * @throws SessionOwnedError; the store's error
 */
export async function refuseLiveOwner(
  look: OwnerLook,
  { force = false, wayOut = 'use --force if that host is gone' }: { force?: boolean; wayOut?: string } = {},
): Promise<void> {
  const owner = force ? undefined : await looksLive(look)
  if (owner !== undefined) throw new SessionOwnedError(look.sessionId, owner, wayOut)
}

/** Who runs here, as other hosts are to see it. */
export function identityOf({ host, pid, instanceId }: Omit<OwnerIdentity, 'processStartedAtMs'>): OwnerIdentity {
  const processStartedAtMs = Date.now() - process.uptime() * 1000
  return { host, pid, instanceId, processStartedAtMs, thread: systemProcesses.self().thread }
}

/**
 * Refuses to boot a session whose owner looks live, with the lock of its tree held. A store that can't be asked has no advice.
 *
 * @throws SessionOwnedError; the signal's reason
 */
export async function refuseOwnerAtBoot(
  run: Pick<OwnerLook, 'store' | 'sessionId'> &
    Omit<OwnerIdentity, 'processStartedAtMs'> & { sessionsRoot: string; clock: Clock; logger: Logger },
  signal: AbortSignal | undefined,
): Promise<void> {
  const { store, sessionId, sessionsRoot, clock, logger } = run
  const scratchDir = join(sessionsRoot, '.machine')
  mkdirSync(scratchDir, { recursive: true, mode: 0o700 })
  try {
    const look = { store, sessionId, scratchDir, identity: identityOf(run), nowMs: clock.now(), signal }
    await refuseLiveOwner(look, { wayOut: 'set core.object_store.ownership to claim to take it from there' })
  } catch (error) {
    if (error instanceof SessionOwnedError) throw error
    signal?.throwIfAborted()
    logger.debug(
      { err: error, session_id: sessionId },
      'the store can not be asked whether the session is open elsewhere',
    )
  }
}

async function byHeartbeat(look: OwnerLook): Promise<LiveOwner | undefined> {
  const { store, sessionId, scratchDir, signal } = look
  const reading = { scratchPath: join(scratchDir, engineTempName()), length: OWNER_MARKER_LIMIT_BYTES, signal }
  let marker: OwnerMarker
  try {
    const bytes = await readObject(store, sessionKeys(sessionId).owner, reading)
    if (bytes === undefined) return undefined
    marker = parseOwnerMarker(bytes)
  } catch (error) {
    if (isNexusError(error, 'CORRUPT')) return undefined
    throw error
  }
  return judged(look, marker, 'heartbeat', defaultTimings.ownerStaleMs)
}

async function byHead(look: OwnerLook): Promise<LiveOwner | undefined> {
  const { store, sessionId, scratchDir, signal } = look
  if (!(await hasChain(store, sessionId, signal))) return undefined
  const commits = new SessionCommits(new SessionObjects({ store, sessionId, root: sessionRoot(sessionId), scratchDir }))
  commits.signal = signal
  const head = await findHead(commits)
  if (head.is !== 'commit' || ['shutdown', 'removed', 'migrate'].includes(head.commit.kind)) return undefined
  const { instanceId, host = '', pid = 0, completedAtMs } = head.commit
  const heartbeatAt = new Date(completedAtMs).toISOString()
  return judged(
    look,
    { sessionId, instanceId, host, pid, claimedAt: heartbeatAt, heartbeatAt },
    'commit',
    HEAD_FRESH_MS,
  )
}

function judged(
  { identity, nowMs }: OwnerLook,
  marker: OwnerMarker,
  by: 'heartbeat' | 'commit',
  staleMs: number,
): LiveOwner | undefined {
  if (judgeOwner(marker, identity, { nowMs, staleMs, isRunning, wasAbandoned }) !== 'conflict') return undefined
  const { instanceId, host, pid, heartbeatAt } = marker
  const ageMs = nowMs - Date.parse(heartbeatAt)
  return { by, instanceId, ...(host === '' ? {} : { host }), ...(pid === 0 ? {} : { pid }), ageMs }
}
