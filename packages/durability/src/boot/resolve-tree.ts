import { join } from 'node:path'
import { isNexusError } from '@nexus/errors'
import type { Clock, Failpoint, Logger } from '@nexus/host'
import type { FailurePolicy } from '../events/table.ts'
import type { EventOutbox } from '../events/outbox.ts'
import type { CommittedGeneration } from '../layout/committed-generation.ts'
import type { Layout, OnMixedPolicy } from '../layout/layout.ts'
import type { Committed } from '../tree/committed.ts'
import type { HydrateResult } from './hydrate.ts'
import { readLocalJournal, type LocalJournal } from './local-journal.ts'
import { lacks, lookAtTree, type LocalTree } from './local-tree.ts'
import { holdsUnstoredTurns, readMachineRecord, type MachineRecord, type MachineRecordFile } from './machine-record.ts'
import { beforeDecision, hydrate, onTopOf, refuseForgotten, replaceTree } from './replace-tree.ts'
import { judgeTree, type StaleLocalPolicy, type TreeVerdict, WHY_KEPT } from './tree-verdict.ts'

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
 * @throws StaleLocalTreeError; `CORRUPT` and `UNSUPPORTED` for a manifest that can't be read, unless `stale_local`
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
  const judged = judgeLocalTree(resolver.bootId, previous, remote, tree)
  // What is newer than the commit is what the caller gives up, except for whole turns that the store never got.
  const givesUp = options.giveUpLocal === true && judged.kind === 'live' && !holdsUnstoredTurns(previous, tree.journal)
  const verdict: TreeVerdict = givesUp ? { kind: 'given-up' } : judged
  return actOn(verdict, resolver, options, { previous, remote, journal: tree.journal })
}

/** Looks at a tree before any plugin of this run writes to it. */
export async function lookAtBoot(sessionDir: string, logger: Logger): Promise<TreeAtBoot> {
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
 * What the machine remembers of a tree that holds a commit, as the tree's own record says: that is copied, restored and rolled
 * back together with the tree, and what lies beside it is not.
 */
export function heldRecord(
  record: MachineRecord | undefined,
  { generation, nonce, journal }: Committed,
  treeBootId: string | undefined,
): MachineRecord {
  const committed = { generation, nonce }
  const lastSeq = journal.last_seq
  if (record !== undefined) return { ...record, committed, lastSeq }
  return { committed, lastSeq, pending: [], bootId: treeBootId ?? '', clean: false, stored: false }
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
  if (verdict.kind === 'live' || remote === undefined) {
    await record.begin(onTopOf(previous, remote))
    return { tree: 'local' }
  }
  if (verdict.kind === 'torn-but-newer' || (verdict.kind === 'stale' && staleLocal === 'keep')) {
    const forked = 'forked' in verdict && verdict.forked
    const about = {
      local_generation: previous?.committed?.generation ?? 0,
      remote_generation: remote.generation,
      forked,
    }
    logger.error({ session_id: sessionId, ...about }, WHY_KEPT[verdict.kind])
    await record.begin(onTopOf(previous, remote))
    return { tree: 'local' }
  }
  return await replaceTree(verdict, resolver, options, { previous, journal, remoteGeneration: remote.generation })
}

/** The store answered, and what it said ends the boot. */
function isDecision(error: unknown): boolean {
  return isNexusError(error) && error.op === 'durability.resolve-tree'
}

/** The store answered, and the answer can't be understood: waiting doesn't help. */
function isUnreadable(error: unknown): boolean {
  return isNexusError(error, 'CORRUPT') || isNexusError(error, 'UNSUPPORTED') || isNexusError(error, 'INVALID_ARGUMENT')
}
