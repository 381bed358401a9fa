import { existsSync } from 'node:fs'
import { rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { NexusError } from '@nexus/errors'
import { LOCK_FILE, syncDirectory } from '@nexus/host'
import type { Committed } from '../tree/committed.ts'
import type { Restored } from '../layout/staged-tree.ts'
import { createStagingDir, removeStagingDir } from '../tree/staging.ts'
import { hydrateSession } from './hydrate.ts'
import type { LocalJournal } from './local-journal.ts'
import { holdsUnstoredTurns, type MachineRecord, type MachineRecordFile } from './machine-record.ts'
import type { ResolveTreeOptions, TreeResolution, TreeResolver } from './resolve-tree.ts'
import { noteSetAside, removeSetAside } from './set-aside.ts'
import { StaleLocalTreeError } from './stale-local-tree-error.ts'
import type { TreeVerdict } from './tree-verdict.ts'

/** Why a tree gives way to the committed one. */
export type ReplacedTree = Exclude<TreeVerdict, { kind: 'live' | 'torn-but-newer' }>

/** What is known of the tree that gives way. */
export interface Known {
  previous: MachineRecord | undefined
  journal: LocalJournal
  /** The newest generation at the last look. */
  remoteGeneration: number
}

/**
 * Sets the tree at the session's path aside and restores the committed one in its place.
 *
 * @throws StaleLocalTreeError under `stale_local: refuse`; whatever a failed hydration throws, with the local tree back in its
 *   place
 */
export async function replaceTree(
  verdict: ReplacedTree,
  resolver: TreeResolver,
  options: ResolveTreeOptions,
  { previous, journal, remoteGeneration }: Known,
): Promise<TreeResolution> {
  const { logger, sessionId, record, staleLocal } = resolver
  const local = { generation: previous?.committed?.generation ?? 0, path: join(resolver.sessionsRoot, sessionId) }
  const forked = 'forked' in verdict && verdict.forked
  if (verdict.kind === 'stale' && staleLocal === 'refuse') {
    const generations = { localGeneration: local.generation, remoteGeneration }
    throw new StaleLocalTreeError({ sessionId, path: local.path, ...generations, forked })
  }
  const keptAt = await setAside(resolver, local.path, forked || holdsUnstoredTurns(previous, journal))
  let resolution: TreeResolution
  try {
    resolution = await hydrate(resolver, options, previous)
  } catch (error) {
    // The tree is what a degraded start falls back to: a boot that fails gives it back, with its own record first, since
    // under that of the restored commit it would count as current.
    if (!existsSync(local.path)) {
      await record.begin(beforeDecision(previous, resolver.bootId))
      await giveBack(keptAt, local.path)
    }
    throw error
  }
  await rm(join(keptAt, LOCK_FILE), { force: true })
  logger.warn(
    {
      session_id: sessionId,
      local_generation: local.generation,
      remote_generation: remoteGeneration,
      forked,
      kept_at: keptAt,
    },
    `${WHY_SET_ASIDE[verdict.kind]}: the local tree was set aside and the committed one restored`,
  )
  resolver.outbox.post('session.local.stale', {
    session_id: sessionId,
    local_generation: local.generation,
    remote_generation: resolution.hydration?.committed?.generation ?? remoteGeneration,
    forked,
    kept_at: keptAt,
  })
  return { ...resolution, keptAt }
}

const WHY_SET_ASIDE: Readonly<Record<Exclude<TreeVerdict['kind'], 'live' | 'torn-but-newer'>, string>> = {
  'lost-content': 'the local tree lost its conversation, its journal or a database, which the committed one has',
  torn: 'the machine went down without a stop',
  stale: 'another host committed since',
  'given-up': 'the last run ended within a turn, and core.sessions.restart is last_commit',
}

/** Restores the committed tree to the session's path, where there is none. */
export async function hydrate(
  resolver: TreeResolver,
  options: ResolveTreeOptions,
  previous: MachineRecord | undefined,
): Promise<TreeResolution> {
  const { layout, sessionId, sessionsRoot, onMixed, clock, logger, failpoint, record, committed, outbox } = resolver
  const hydration = await hydrateSession({
    layout,
    sessionId,
    sessionsRoot,
    onMixed,
    clock,
    logger,
    failpoint,
    prepareStaging: options.prepareStaging,
    beforePlacing: (restored) => record.begin(ofRestored(restored)),
    signal: options.signal,
  })
  if (hydration.outcome === 'never-seen') {
    refuseForgotten(resolver, previous)
    await record.begin({})
    return { tree: 'absent', hydration }
  }
  const { mixed } = hydration
  committed.current = hydration.committed
  if (mixed !== undefined) outbox.post('session.hydrate.mixed', { session_id: sessionId, ...mixed })
  return { tree: 'hydrated', hydration }
}

/** The record of a tree that was just restored: on the disk before the tree appears. */
function ofRestored({ committed: { generation, nonce, journal }, mixed }: Restored): RecordStart {
  return {
    committed: { generation, nonce },
    lastSeq: journal.last_seq,
    pending: [],
    ...(mixed === undefined ? {} : { mixedFrom: { generation: mixed.generation, paths: mixed.paths } }),
  }
}

/** `.stale-<id>-<time>` beside the sessions, noted first: a tree without a note is never removed. */
export async function setAside(
  { sessionsRoot, sessionId, clock, failpoint }: TreeResolver,
  path: string,
  forked: boolean,
): Promise<string> {
  const time = new Date(clock.now()).toISOString().replaceAll(/[-:]|\.\d+/g, '')
  const base = join(sessionsRoot, `.stale-${sessionId}-${time}`)
  let keptAt = base
  for (let n = 2; existsSync(keptAt); n++) keptAt = `${base}-${n}`
  await failpoint('resolve-tree:before-set-aside')
  await noteSetAside(keptAt, { setAsideAtMs: clock.now(), forked })
  await rename(path, keptAt)
  await syncDirectory(sessionsRoot)
  await failpoint('resolve-tree:set-aside')
  return keptAt
}

/** Puts a tree that was set aside back to its place. */
export async function giveBack(keptAt: string, path: string): Promise<void> {
  await rename(keptAt, path)
  await removeSetAside(keptAt)
}

/** Removes a tree that nobody worked in: out of the way first, so that its place holds a whole tree or nothing. */
export async function dropTree({ sessionsRoot, sessionId }: TreeResolver): Promise<void> {
  const dir = createStagingDir(sessionsRoot, 'hydrating', sessionId)
  await rename(join(sessionsRoot, sessionId), join(dir, 'dropped'))
  await removeStagingDir(dir)
}

/** Failpoints of a tree that is set aside, besides those of a hydration. */
export const RESOLVE_TREE_FAILPOINTS: readonly string[] = ['resolve-tree:before-set-aside', 'resolve-tree:set-aside']

type RecordStart = Parameters<MachineRecordFile['begin']>[0]

/** The run goes on from the store's generation, knowing all earlier attempts of this machine as its own. */
export function onTopOf(previous: MachineRecord | undefined, remote: Committed | undefined): RecordStart {
  const base = previous === undefined ? {} : carried(previous)
  if (remote === undefined) return base
  const committed = { generation: remote.generation, nonce: remote.nonce }
  return { ...base, committed, lastSeq: remote.journal.last_seq }
}

/** A tree that an unclean end in an earlier boot may have torn stays one until it could be judged, whatever happens before. */
export function beforeDecision(
  previous: MachineRecord | undefined,
  bootId: string,
  journal?: LocalJournal,
): RecordStart {
  if (previous === undefined) return {}
  if (previous.clean || previous.bootId === bootId) return { ...carried(previous), bootId }
  const tornAtSeq = previous.tornAtSeq ?? journal?.turnEnd
  return { ...carried(previous), bootId: previous.bootId, ...(tornAtSeq === undefined ? {} : { tornAtSeq }) }
}

function carried(previous: MachineRecord): RecordStart {
  const { committed, lastSeq, pending, mixedFrom } = previous
  return { committed, lastSeq, pending: [...pending], ...(mixedFrom === undefined ? {} : { mixedFrom }) }
}

/**
 * A store that has no commit of a session which this machine committed there has lost it, or is another one: a wrong
 * bucket, prefix or credential looks just like an empty store. Told under both policies, refused under `strict`.
 */
export function refuseForgotten(resolver: TreeResolver, previous: MachineRecord | undefined): void {
  const { sessionId, policy, acceptEmpty = false, logger, outbox } = resolver
  const generation = previous?.committed?.generation
  if (generation === undefined || acceptEmpty) return
  const error = new NexusError(
    'PRECONDITION',
    `this machine committed session ${sessionId} (generation ${generation}), and the store says that it has no such session: ` +
      'look at bucket, prefix and credentials, or set core.object_store.accept_empty to begin anew there',
    { op: 'durability.resolve-tree', key: sessionId },
  )
  if (policy === 'strict') throw error
  logger.error({ session_id: sessionId, generation }, error.message)
  outbox.post('core.error', { source: 'core.object_store', error: error.message, fatal: false, retryable: false })
}
