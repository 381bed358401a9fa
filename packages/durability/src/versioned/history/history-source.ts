import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fromSystemError, NexusError } from '@nexus/errors'
import { type Clock, Slices, systemClock } from '@nexus/host'
import type { ObjectStore } from '@nexus/objectstore'
import { validateSessionId } from '../../tree/session-id.ts'
import { removeStagingDir } from '../../tree/staging.ts'
import type { CommitStore } from '../core/commit-store.ts'
import { findHead } from '../core/head-search.ts'
import { lowestKept, SAFE_DISTANCE } from '../core/reclaim.ts'
import { FIRST_GENERATION, sessionRoot } from '../core/versioned-keys.ts'
import { type KeepOptions, keepPolicy } from '../keep.ts'
import { SessionCommits } from '../session-commits.ts'
import { type LoadedTree, loadTree, type LoadOptions } from '../store/read/load-tree.ts'
import { GoneObjectError } from '../store/range-reader.ts'
import { SessionObjects, type WholeCommit } from '../store/session-objects.ts'

/** One session in a store, and how it is read. */
export interface HistorySource {
  readonly sessionId: string
  readonly objects: SessionObjects
  readonly commits: SessionCommits
  readonly clock: Clock
  readonly keep: KeepOptions | undefined
  readonly loading: LoadOptions
}

/** How history is read. */
export interface HistoryOptions {
  signal?: AbortSignal | undefined
  /** Requests in flight, default 16. */
  concurrency?: number | undefined
  /** What is kept of the session: what lies below counts as reclaimed. Default: that of the configuration. */
  keep?: KeepOptions | undefined
  clock?: Clock | undefined
}

const CONCURRENCY = 16

/**
 * Opens a session in a store for as long as `use` takes, with a directory for what is on its way.
 *
 * @throws NexusError `INVALID_ARGUMENT` for what can't be a session's id; `LOCAL_IO` without a place for temporary files
 */
export async function withSource<T>(
  store: ObjectStore,
  sessionId: string,
  { signal, concurrency = CONCURRENCY, keep, clock = systemClock }: HistoryOptions,
  use: (source: HistorySource) => Promise<T>,
): Promise<T> {
  validateSessionId(sessionId)
  signal?.throwIfAborted()
  const scratchDir = makeScratch()
  try {
    const objects = new SessionObjects({ store, sessionId, root: sessionRoot(sessionId), scratchDir })
    const commits = new SessionCommits(objects)
    commits.signal = signal
    const loading = { signal, concurrency, slices: new Slices({ signal }) }
    return await use({ sessionId, objects, commits, clock, keep, loading })
  } finally {
    await removeStagingDir(scratchDir)
  }
}

function makeScratch(): string {
  const parent = tmpdir()
  try {
    return mkdtempSync(join(parent, 'nexus-history-'))
  } catch (error) {
    throw fromSystemError(error, 'history.scratch', parent)
  }
}

/**
 * The newest generation of a session, also a damaged one.
 *
 * @throws NexusError `NOT_FOUND` when there is none
 */
export async function newestGeneration({ sessionId, commits }: HistorySource): Promise<number> {
  const head = await findHead(believing(commits))
  if (head.is === 'commit' && head.commit.kind !== 'removed') return head.commit.generation
  const why =
    head.is === 'commit'
      ? `was removed at ${new Date(head.commit.completedAtMs).toISOString()}`
      : `has no commit in the versioned layout`
  throw new NexusError('NOT_FOUND', `session ${sessionId} ${why}`, { op: 'history.read', key: sessionId })
}

/** A damaged commit counts as one here: its number is taken, and those before it can be read all the same. */
function believing(commits: SessionCommits): CommitStore {
  return {
    list: (folder) => commits.list(folder),
    hint: () => commits.hint(),
    read: async (generation) => {
      const found = await commits.read(generation)
      if (found.is !== 'corrupt') return found
      const unknown = { digest: '', kind: 'turn' as const, instanceId: '', nonce: '', completedAtMs: 0 }
      return { is: 'commit', commit: { generation, ...unknown } }
    },
  }
}

/** The lowest generation that counts as kept. What lies below may be half gone, whatever can still be read of it. */
export async function lowestReadable(source: HistorySource, head: number): Promise<number> {
  const options = { policy: keepPolicy(source.keep), nowMs: source.clock.now() }
  return (await lowestKept(source.commits, head, options)) ?? FIRST_GENERATION
}

/** A commit of a session and the index of its tree. */
export type OpenedGeneration = LoadedTree & { commit: WholeCommit }

/**
 * Opens a generation; the newest one where none is named.
 *
 * @throws NexusError `NOT_FOUND` when it is reclaimed or was never there; `CORRUPT`
 */
export async function openGeneration(
  source: HistorySource,
  wanted?: number,
): Promise<OpenedGeneration & { generation: number }> {
  const generation = await readableGeneration(source, wanted)
  return await orReclaimed(source, generation, async () => {
    const commit = await readCommit(source, generation)
    return { generation, commit, ...(await loadTree(source.objects, commit, source.loading)) }
  })
}

/**
 * The generation that is meant, which is the newest where none is named.
 *
 * @throws NexusError `NOT_FOUND` where the policy let it go, and where it never was
 */
export async function readableGeneration(source: HistorySource, wanted?: number): Promise<number> {
  const head = await newestGeneration(source)
  if (wanted === undefined) return head
  if (wanted > head || !Number.isSafeInteger(wanted) || wanted < FIRST_GENERATION) throw never(source, wanted, head)
  if (wanted < (await lowestReadable(source, head))) throw reclaimed(source, wanted)
  return wanted
}

/** @throws GoneObjectError */
export async function readCommit({ objects, loading }: HistorySource, generation: number): Promise<WholeCommit> {
  const commit = await objects.readWhole(generation, loading.signal)
  if (commit === undefined) throw new GoneObjectError(objects.nameOf(generation))
  return commit
}

/**
 * Runs a reading of a generation. What is missing then was reclaimed where that may happen to a generation as old as this, or
 * was let go by a commit that stored everything anew; it is damage otherwise. Rereading the commit itself would prove nothing.
 */
export async function orReclaimed<T>(source: HistorySource, generation: number, read: () => Promise<T>): Promise<T> {
  try {
    return await read()
  } catch (error) {
    if (!(error instanceof GoneObjectError)) throw error
    const head = await newestGeneration(source)
    if (generation > head) throw never(source, generation, head, error)
    if (generation <= head - SAFE_DISTANCE || (await isLetGo(source, generation, head)))
      throw reclaimed(source, generation, error)
    const message = `generation ${generation} of session ${source.sessionId} lacks ${error.key}`
    throw new NexusError('CORRUPT', message, about(source, error))
  }
}

/** Whether a commit above stored everything anew, so that what lies below it may go. */
async function isLetGo({ commits }: HistorySource, generation: number, head: number): Promise<boolean> {
  const found = await commits.read(generation)
  if (found.is === 'tombstone') return true
  for (let above = generation + 1; above <= head; above++) {
    const each = await commits.read(above)
    if (each.is === 'commit' && BARRIERS.has(each.commit.kind)) return true
  }
  return false
}

const BARRIERS: ReadonlySet<string> = new Set(['repack', 'removed'])

function never({ sessionId }: HistorySource, generation: number, head: number, cause?: Error): NexusError {
  const message = `session ${sessionId} has no generation ${generation}: its newest is ${head}`
  return new NexusError('NOT_FOUND', message, { op: 'history.read', key: sessionId, cause })
}

function reclaimed(source: HistorySource, generation: number, cause?: Error): NexusError {
  const message =
    `generation ${generation} of session ${source.sessionId} was reclaimed: ` +
    'sessions history lists those that are kept, and core.object_store.keep says which these are'
  return new NexusError('NOT_FOUND', message, about(source, cause))
}

function about({ sessionId }: HistorySource, cause?: Error): { op: string; key: string; cause?: Error } {
  const key = cause instanceof GoneObjectError ? cause.key : undefined
  return { op: 'history.read', key: key ?? sessionId, ...(cause === undefined ? {} : { cause }) }
}
