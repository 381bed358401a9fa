import { join } from 'node:path'
import type { Backend, ObjectStore } from '@nexus/objectstore'
import type { Clock, Logger } from '@nexus/host'
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
import { SweepRounds } from './sweep-rounds.ts'

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

async function sweepOnce({ id, loaded, store, background }: RunningSession, options: ResolvedOptions): Promise<void> {
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
  await removeTemps([join(sessions.root, '.machine')], guards)
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

/** By the clock they go by, then by everything that decides what a sweep removes. */
const rounds = new WeakMap<Clock, Map<string, SweepRounds>>()
const backends = new WeakMap<Backend, number>()
let backendsSeen = 0

function roundsOf({ loaded }: RunningSession, { clock, backend }: ResolvedOptions): SweepRounds {
  const { core, journal } = loaded.config
  if (backend !== undefined && !backends.has(backend)) backends.set(backend, ++backendsSeen)
  const given = backend === undefined ? core.objectStore : backends.get(backend)
  const name = JSON.stringify([core.sessions, journal.retainDays, given])
  const ofClock = rounds.get(clock) ?? new Map<string, SweepRounds>()
  rounds.set(clock, ofClock)
  const found = ofClock.get(name) ?? new SweepRounds(clock, () => ofClock.delete(name))
  ofClock.set(name, found)
  return found
}

/**
 * Removes what is past its retention, in the background, for as long as the run goes on: see {@link SweepRounds}. What killed
 * runs left in the session's own tree goes now. Never holds the process, never fails the run.
 *
 * @see docs/concepts/session.md
 */
export function startRetention(session: RunningSession, options: ResolvedOptions): void {
  const { clock, logger } = options
  const { signal } = session.background
  void removeTemps([session.dir], { clock, logger, signal })
  roundsOf(session, options).join({ signal, logger, sweep: () => sweepOnce(session, options) })
}
