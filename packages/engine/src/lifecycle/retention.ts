import type { ObjectStore } from '@nexus/objectstore'
import { join } from 'node:path'
import type { Logger, TimerHandle } from '@nexus/host'
import {
  holdsUnstoredTurns,
  isOurCommit,
  readCommittedManifest,
  readLocalJournal,
  readMachineRecord,
  type Manifest,
} from '@nexus/durability'
import type { SweepClaim } from '@nexus/journal'
import type { ResolvedOptions } from '../engine-options.ts'
import { sweepJournals, sweepSessions, sweepSetAside } from '../session/retention.ts'
import { removeTemps } from './leftovers.ts'
import type { RunningSession } from './running-session.ts'

const DAY_MS = 24 * 60 * 60 * 1000

/**
 * The store's newest commit of a session when it is the one that the local tree holds, whole: only then is the tree a cache.
 */
async function commitOfTree(
  sessionsRoot: string,
  store: ObjectStore | undefined,
  sessionId: string,
  signal: AbortSignal,
): Promise<Manifest | undefined> {
  const record = readMachineRecord(sessionsRoot, sessionId)
  if (store === undefined || record?.stored !== true) return undefined
  const manifest = await readCommittedManifest(store, sessionId, { signal, scratchDir: sessionsRoot })
  return manifest !== undefined && isOurCommit(record, manifest) ? manifest : undefined
}

function segmentsIn({ entries }: Manifest): SweepClaim['committed'] {
  const inJournal = Object.entries(entries).filter(([path]) => path.startsWith('journal/'))
  return new Map(
    inJournal.map(([path, { size, sha256 }]) => [path.slice('journal/'.length), { sizeBytes: size, sha256 }]),
  )
}

/** Whether only this disk has the newest turns of a session. What a killed run left after its last turn isn't counted. */
async function lastSnapshotFailed(sessionsRoot: string, sessionId: string, logger: Logger): Promise<boolean> {
  const record = readMachineRecord(sessionsRoot, sessionId)
  if (record === undefined || record.stored) return false
  return holdsUnstoredTurns(record, await readLocalJournal(join(sessionsRoot, sessionId), logger))
}

async function sweepOnce(
  { id, dir, loaded, store, background }: RunningSession,
  options: ResolvedOptions,
): Promise<void> {
  const { sessions } = loaded.config.core
  const { clock, logger } = options
  const guards = {
    root: sessions.root,
    currentId: id,
    lastSnapshotFailed: (sessionId: string) => lastSnapshotFailed(sessions.root, sessionId, logger),
    clock,
    logger,
    signal: background.signal,
  }
  const committed = (sessionId: string): Promise<Manifest | undefined> =>
    commitOfTree(sessions.root, store, sessionId, background.signal)
  await removeTemps([dir, join(sessions.root, '.machine')], guards)
  await sweepSessions({
    ...guards,
    retentionMs: sessions.retentionMs,
    explicit: sessions.retentionExplicit,
    isCommitted: async (sessionId) => (await committed(sessionId)) !== undefined,
  })
  await sweepJournals({
    ...guards,
    retainDays: loaded.config.journal.retainDays,
    committedSegments: async (sessionId) => {
      const manifest = await committed(sessionId)
      return manifest && segmentsIn(manifest)
    },
  })
  await sweepSetAside({ ...guards, ...sessions.keepStale })
  logger.debug({}, 'looked for what is past its retention')
}

/**
 * Removes what is past its retention: now, in the background, and once a day for as long as the run goes on. Never holds
 * the process, never fails the run.
 *
 * @see docs/concepts/session.md
 */
export function startRetention(session: RunningSession, options: ResolvedOptions): void {
  const { clock, logger } = options
  const { signal } = session.background
  let timer: TimerHandle | undefined
  signal.addEventListener('abort', () => timer !== undefined && clock.clearTimeout(timer), { once: true })
  const sweep = async (): Promise<void> => {
    try {
      await sweepOnce(session, options)
    } catch (error) {
      if (!signal.aborted) logger.warn({ err: error }, 'old sessions could not be swept; trying again in a day')
    }
    if (!signal.aborted) schedule(() => void sweep())
  }
  const schedule = (run: () => void): void => {
    timer = clock.setTimeout(run, DAY_MS)
    timer.unref()
  }
  void sweep()
}
