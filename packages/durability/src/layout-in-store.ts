import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { isNexusError, NexusError } from '@nexus/errors'
import { noFailpoint, silentLogger, systemClock, type Logger } from '@nexus/host'
import type { ObjectStore } from '@nexus/objectstore'
import { readMachineRecord } from './boot/machine-record.ts'
import { isOutage } from './layout/is-outage.ts'
import type { Layout } from './layout/layout.ts'
import { mirrorLayout } from './mirror-layout.ts'
import { findHead } from './versioned/core/head-search.ts'
import { sessionRoot } from './versioned/core/versioned-keys.ts'
import { readSessionRecord } from './versioned/record-file.ts'
import { hasChain } from './versioned/refuse-chain.ts'
import { SessionCommits } from './versioned/session-commits.ts'
import { SessionObjects } from './versioned/store/session-objects.ts'

/**
 * The layout that a session has in a store, for those who only read it: mirror, for that of a versioned session is refused.
 *
 * @param scratchDir where short-lived files go; made when it is missing
 * @throws NexusError `INVALID_ARGUMENT` for what can't be a session's id, `UNSUPPORTED` for a session of the versioned
 *   layout, the store's error
 */
export async function layoutInStore(
  store: ObjectStore,
  sessionId: string,
  scratchDir: string,
  logger: Logger = silentLogger,
): Promise<Layout> {
  if (await hasChain(store, sessionId)) {
    throw new NexusError(
      'UNSUPPORTED',
      `session ${sessionId} is in the versioned layout (sessions/${sessionId}.v/), which only the engine can read: ` +
        'open it with core.object_store.layout versioned',
      { op: 'durability.read', key: sessionId },
    )
  }
  return mirrorLayout({ store, sessionId, clock: systemClock, logger, failpoint: noFailpoint }, scratchDir)
}

/** How a session lies in a store. */
export type LayoutName = 'mirror' | 'versioned'

/** Which session is asked about. */
export interface LayoutQuestion {
  store: ObjectStore
  sessionId: string
  sessionsRoot: string
  /** The id was generated just now. */
  fresh: boolean
  logger: Logger
  signal?: AbortSignal | undefined
}

/**
 * The layout of a session whose configuration leaves it open. One that exists keeps what it has, as the store says, or this
 * machine where the store can't be asked or knows nothing of it. A new one is versioned where the backend has what that needs.
 *
 * @throws the store's error, where it answered with what can't be understood
 */
export async function chooseLayout(question: LayoutQuestion): Promise<LayoutName> {
  const { store, sessionId, fresh, logger, signal } = question
  const { get, putIfAbsent } = store.capabilities
  if (!get || !putIfAbsent) return 'mirror'
  if (fresh) return 'versioned'
  try {
    return (await storedLayout(question)) ?? layoutHere(question) ?? 'versioned'
  } catch (error) {
    signal?.throwIfAborted()
    if (!isOutage(error)) throw error
    logger.debug({ err: error, session_id: sessionId }, 'the store can not be asked which layout the session has')
    return layoutHere(question) ?? 'versioned'
  }
}

/** The newest of what the store has, where a session was moved from one layout to the other. */
async function storedLayout({
  store,
  sessionId,
  sessionsRoot,
  logger,
  signal,
}: LayoutQuestion): Promise<LayoutName | undefined> {
  const scratchDir = join(sessionsRoot, '.machine')
  mkdirSync(scratchDir, { recursive: true, mode: 0o700 })
  const mirror = mirrorLayout({ store, sessionId, clock: systemClock, logger, failpoint: noFailpoint }, scratchDir)
  if (!(await hasChain(store, sessionId, signal))) return (await hasManifest(mirror, signal)) ? 'mirror' : undefined
  if (!(await hasManifest(mirror, signal))) return 'versioned'
  const commits = new SessionCommits(new SessionObjects({ store, sessionId, root: sessionRoot(sessionId), scratchDir }))
  commits.signal = signal
  const head = await findHead(commits)
  return head.is === 'commit' && head.commit.kind === 'migrate' ? 'mirror' : 'versioned'
}

/** One that can't be read is one: the boot of its layout says what is wrong with it. */
async function hasManifest(mirror: Layout, signal: AbortSignal | undefined): Promise<boolean> {
  try {
    return (await mirror.head(signal)) !== undefined
  } catch (error) {
    if (isNexusError(error, 'CORRUPT') || isNexusError(error, 'UNSUPPORTED')) return true
    throw error
  }
}

/** What this machine remembers; undefined of a session that it never stored. */
function layoutHere({ sessionsRoot, sessionId }: LayoutQuestion): LayoutName | undefined {
  if (readSessionRecord(join(sessionsRoot, sessionId)) !== undefined) return 'versioned'
  return readMachineRecord(sessionsRoot, sessionId)?.committed === undefined ? undefined : 'mirror'
}
