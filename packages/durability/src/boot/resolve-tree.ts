import { existsSync } from 'node:fs'
import { rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { isNexusError, NexusError } from '@nexus/errors'
import { type Clock, type Failpoint, LOCK_FILE, type Logger, syncDirectory } from '@nexus/host'
import type { CommitChain, Layout, OnMixedPolicy } from '../layout/layout.ts'
import type { FailurePolicy } from '../events/table.ts'
import type { CommittedGeneration } from '../layout/committed-generation.ts'
import type { EventOutbox } from '../events/outbox.ts'
import { hydrateSession, type HydrateResult } from './hydrate.ts'
import type { Restored } from '../layout/staged-tree.ts'
import { readLocalJournal, type LocalJournal } from './local-journal.ts'
import { lacks, lookAtTree, type LocalTree } from './local-tree.ts'
import { holdsUnstoredTurns, readMachineRecord, type MachineRecord, type MachineRecordFile } from './machine-record.ts'
import type { Committed } from '../tree/committed.ts'
import { noteSetAside, removeSetAside } from './set-aside.ts'
import { judgeTree, type StaleLocalPolicy, type TreeVerdict, WHY_KEPT } from './tree-verdict.ts'
import { StaleLocalTreeError } from './stale-local-tree-error.ts'

/** What {@link resolveTree} works with. */
export interface TreeResolver {
  layout: Layout
  sessionId: string
  sessionsRoot: string
  bootId: string
  staleLocal: StaleLocalPolicy
  onMixed: OnMixedPolicy
  policy: FailurePolicy
  /** A store that forgot a session is begun anew. */
  acceptEmpty?: boolean | undefined
  record: MachineRecordFile
  committed: CommittedGeneration
  outbox: EventOutbox
  clock: Clock
  logger: Logger
  failpoint: Failpoint
  /** The store didn't answer; the local tree is used until it does. */
  onUnreachable: (error: Error) => void
}

export interface ResolveTreeOptions {
  /** There is a tree at the session's path, and the caller holds its lock. */
  localExists: boolean
  /** Writes our lock into a tree that is about to appear at the session's path. */
  prepareStaging: (dir: string) => Promise<void>
  /** The caller wants the committed tree also where the local one could go on. */
  giveUpLocal?: boolean
  signal?: AbortSignal | undefined
}

/** Which tree the session runs on. */
export interface TreeResolution {
  /** `local`: the one that was there. `hydrated`: restored just now. `absent`: there is none; the caller creates it. */
  tree: 'local' | 'hydrated' | 'absent'
  /** The tree that was there lies here now, and the lock that the caller held went with it. */
  keptAt?: string
  /** The store couldn't be asked: the question is open until the first commit, and is decided on what was there at boot. */
  undecided?: TreeAtBoot
  hydration?: HydrateResult
  /** The tree holds completed turns that no commit does. */
  owesTurns?: boolean
}

/** What a local tree held before any plugin of this run wrote to it. */
export interface TreeAtBoot extends LocalTree {
  journal: LocalJournal
}

/**
 * Settles at boot which tree the session runs on, and puts it at the session's path.
 *
 * @throws {@link StaleLocalTreeError}; `CORRUPT` and `UNSUPPORTED` for a manifest that can't be read, unless `stale_local`
 *   is `keep` and there is a local tree; whatever a failed hydration throws, with the local tree back in its place
 * @see docs/concepts/durability.md
 */
export async function resolveTree(resolver: TreeResolver, options: ResolveTreeOptions): Promise<TreeResolution> {
  const { committed, record, logger, sessionId, sessionsRoot } = resolver
  const previous = readMachineRecord(sessionsRoot, sessionId)
  if (!options.localExists) return hydrate(resolver, options, previous)
  const tree = await lookAtBoot(join(sessionsRoot, sessionId), logger)
  let remote: Committed | undefined
  try {
    remote = await committed.look(options.signal)
  } catch (error) {
    options.signal?.throwIfAborted()
    if (isDecision(error)) throw error
    if (isUnreadable(error)) {
      if (resolver.staleLocal !== 'keep') throw error
      logger.error(
        { err: error, session_id: sessionId },
        'the committed manifest can not be read; keeping the local tree',
      )
    } else {
      resolver.onUnreachable(error as Error)
      logger.warn(
        { err: error, session_id: sessionId },
        'the store can not be asked for the session; using the local tree',
      )
    }
    await record.begin(beforeDecision(previous, resolver.bootId, tree.journal))
    return { tree: 'local', undecided: tree }
  }
  if (remote === undefined) refuseForgotten(resolver, previous)
  const known = asTreeSays(previous, remote, resolver.layout.chain)
  const judged = judgeLocalTree(resolver.bootId, known, remote, tree)
  // What is newer than the commit is what the caller gives up, except for whole turns that the store never got.
  const givesUp = options.giveUpLocal === true && judged.kind === 'live' && !holdsUnstoredTurns(previous, tree.journal)
  const verdict: TreeVerdict = givesUp ? { kind: 'given-up' } : judged
  return actOn(verdict, resolver, options, { previous, remote, journal: tree.journal })
}

async function lookAtBoot(sessionDir: string, logger: Logger): Promise<TreeAtBoot> {
  return { ...lookAtTree(sessionDir), journal: await readLocalJournal(sessionDir, logger) }
}

/** Judges the tree at the session's path against the store's committed generation. */
export function judgeLocalTree(
  bootId: string,
  record: MachineRecord | undefined,
  remote: Committed | undefined,
  tree: TreeAtBoot,
): TreeVerdict {
  if (remote === undefined) return { kind: 'live', why: 'never-stored' }
  return judgeTree({
    record,
    bootId,
    remote: { generation: remote.generation, nonce: remote.nonce, lastSeq: remote.journal.last_seq },
    journal: tree.journal,
    hasLost: lacks(tree, remote),
  })
}

/**
 * What the machine remembers, corrected by what the tree itself knows of its commits: that is copied, restored and rolled back
 * together with the tree, and what lies beside it is not.
 */
export function asTreeSays(
  record: MachineRecord | undefined,
  remote: Committed | undefined,
  chain: CommitChain | undefined,
): MachineRecord | undefined {
  if (chain === undefined || remote === undefined) return record
  const { generation, nonce, journal } = remote
  if (!chain.holdsTree) {
    if (record?.committed === undefined) return undefined
    return { ...record, committed: { generation: record.committed.generation, nonce: '' }, pending: [] }
  }
  const committed = { generation, nonce }
  if (record !== undefined) return { ...record, committed }
  const bootId = chain.treeBootId ?? ''
  return { committed, lastSeq: journal.last_seq, pending: [], bootId, clean: false, stored: false }
}

/**
 * A store that has no commit of a session which this machine committed there has lost it, or is another one: a wrong
 * bucket, prefix or credential looks just like an empty store. Told under both policies, refused under `strict`.
 */
function refuseForgotten(resolver: TreeResolver, previous: MachineRecord | undefined): void {
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

interface Known {
  previous: MachineRecord | undefined
  journal: LocalJournal
  remote: Committed | undefined
}

async function actOn(
  verdict: TreeVerdict,
  resolver: TreeResolver,
  options: ResolveTreeOptions,
  { previous, remote, journal }: Known,
): Promise<TreeResolution> {
  const { logger, sessionId, record, staleLocal } = resolver
  const local = { generation: previous?.committed?.generation ?? 0, path: join(resolver.sessionsRoot, sessionId) }
  if (verdict.kind === 'live' || remote === undefined) {
    await record.begin(onTopOf(previous, remote))
    return { tree: 'local' }
  }
  const forked = 'forked' in verdict && verdict.forked
  if (verdict.kind === 'stale' && staleLocal === 'refuse') {
    throw new StaleLocalTreeError({
      sessionId,
      path: local.path,
      localGeneration: local.generation,
      remoteGeneration: remote.generation,
      forked,
    })
  }
  if (verdict.kind === 'torn-but-newer' || (verdict.kind === 'stale' && staleLocal === 'keep')) {
    const about = { local_generation: local.generation, remote_generation: remote.generation, forked }
    logger.error({ session_id: sessionId, ...about }, WHY_KEPT[verdict.kind])
    await record.begin(onTopOf(previous, remote))
    return { tree: 'local' }
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
      await rename(keptAt, local.path)
      await removeSetAside(keptAt)
    }
    throw error
  }
  await rm(join(keptAt, LOCK_FILE), { force: true })
  logger.warn(
    {
      session_id: sessionId,
      local_generation: local.generation,
      remote_generation: remote.generation,
      forked,
      kept_at: keptAt,
    },
    `${WHY_SET_ASIDE[verdict.kind]}: the local tree was set aside and the committed one restored`,
  )
  resolver.outbox.post('session.local.stale', {
    session_id: sessionId,
    local_generation: local.generation,
    remote_generation: resolution.hydration?.committed?.generation ?? remote.generation,
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

async function hydrate(
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
async function setAside(
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

/** Failpoints of {@link resolveTree}, besides those of a hydration. */
export const RESOLVE_TREE_FAILPOINTS: readonly string[] = ['resolve-tree:before-set-aside', 'resolve-tree:set-aside']

type RecordStart = Parameters<MachineRecordFile['begin']>[0]

/** The run goes on from the store's generation, knowing all earlier attempts of this machine as its own. */
function onTopOf(previous: MachineRecord | undefined, remote: Committed | undefined): RecordStart {
  const base = previous === undefined ? {} : carried(previous)
  if (remote === undefined) return base
  const committed = { generation: remote.generation, nonce: remote.nonce }
  return { ...base, committed, lastSeq: remote.journal.last_seq }
}

/** A tree that an unclean end in an earlier boot may have torn stays one until it could be judged, whatever happens before. */
function beforeDecision(previous: MachineRecord | undefined, bootId: string, journal?: LocalJournal): RecordStart {
  if (previous === undefined) return {}
  if (previous.clean || previous.bootId === bootId) return { ...carried(previous), bootId }
  const tornAtSeq = previous.tornAtSeq ?? journal?.turnEnd
  return { ...carried(previous), bootId: previous.bootId, ...(tornAtSeq === undefined ? {} : { tornAtSeq }) }
}

function carried(previous: MachineRecord): RecordStart {
  const { committed, lastSeq, pending, mixedFrom } = previous
  return { committed, lastSeq, pending: [...pending], ...(mixedFrom === undefined ? {} : { mixedFrom }) }
}

/** The store answered, and what it said ends the boot. */
function isDecision(error: unknown): boolean {
  return isNexusError(error) && error.op === 'durability.resolve-tree'
}

/** The store answered, and the answer can't be understood: waiting doesn't help. */
function isUnreadable(error: unknown): boolean {
  return isNexusError(error, 'CORRUPT') || isNexusError(error, 'UNSUPPORTED') || isNexusError(error, 'INVALID_ARGUMENT')
}
