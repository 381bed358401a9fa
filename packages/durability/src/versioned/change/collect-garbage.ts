import { isNexusError, NexusError } from '@nexus/errors'
import { type Failpoint, noFailpoint } from '@nexus/host'
import { forEachBounded, type ObjectStore } from '@nexus/objectstore'
import { isSessionId } from '../../tree/session-id.ts'
import type { CommitFacts } from '../core/commit-facts.ts'
import { findHead } from '../core/head-search.ts'
import { lowestKept, packsBelowClaim, reclaim, type ReclaimStore, sweepBelow, takeAway } from '../core/reclaim.ts'
import { removeOrphans } from '../core/removal.ts'
import { commitKey, FIRST_GENERATION, folderKey, folderOf, hintKey, packsKey } from '../core/versioned-keys.ts'
import { keepPolicy } from '../keep.ts'
import { waiting } from '../store/session-objects.ts'
import { baseOn, type ChangeOptions, commitBehind, prepareEmpty, reclaimStoreOf, refuseLive } from './chain-author.ts'
import { type HistorySource, openGeneration, withSource } from '../history/history-source.ts'
import { removalWorld, removeOpened, sweepRemoved } from './remove-session.ts'

const DAY_MS = 86_400_000
/** A prefix with packs and no commit is left alone for as long: its first commit may be on its way. */
const ORPHAN_AGE_MS = 7 * DAY_MS
const SESSIONS_AT_ONCE = 4

/** What is collected. */
export interface GarbageOptions extends Omit<ChangeOptions, 'sessionsRoot'> {
  /** Only look. Default false. */
  dryRun?: boolean | undefined
  /**
   * Commit a claim to each session first, and delete packs that no kept commit names, also young ones. Whoever has such a
   * session open has lost it, so one whose owner looks live is left alone without `force`.
   */
  claim?: boolean | undefined
  /** Delete what is left of sessions that were removed at least so long ago, in milliseconds. Default: nothing. */
  forgetRemovedMs?: number | undefined
  /** Sessions to look at. Default: every versioned one. */
  ids?: readonly string[] | undefined
}

/** What was taken away of one session, or would be. */
export interface CollectedSession {
  id: string
  /** Commits that were overwritten by tombstones, and packs that were deleted. */
  commits: number
  packs: number
  /** The whole session went: its time was over, or it never had a commit. */
  ended?: 'expired' | 'orphan' | undefined
  /** Not even that it was removed is known any more. */
  forgotten?: boolean | undefined
  /** Why it was left alone. */
  kept?: string | undefined
}

/**
 * Takes away what the policy lets go of versioned sessions, sessions whose time is over, what arrived late for removed ones, and
 * prefixes that hold packs and no commit. Commits nothing to a session that stays, but a claim where that is asked for; so it
 * may run anywhere, twice, or stop. Sessions of which nothing is to be told are left out.
 *
 * @throws the store's error
 */
export async function collectGarbage(store: ObjectStore, options: GarbageOptions = {}): Promise<CollectedSession[]> {
  const { signal } = options
  const ids = options.ids ?? (await versionedIds(store, signal))
  const collected: CollectedSession[] = []
  await forEachBounded(
    ids,
    SESSIONS_AT_ONCE,
    async (id, _at, each) => {
      const one = await withSource(store, id, { ...options, signal: each }, (source) => collectOne(source, options))
      const { commits, packs, ended, forgotten, kept } = one
      if (commits + packs > 0 || ended !== undefined || forgotten === true || kept !== undefined) collected.push(one)
    },
    signal,
  )
  return collected.toSorted((a, b) => (a.id < b.id ? -1 : 1))
}

async function versionedIds(store: ObjectStore, signal: AbortSignal | undefined): Promise<string[]> {
  const names = await store.listNames('sessions', waiting(signal))
  return names.flatMap((name) => (name.endsWith('.v') && isSessionId(name.slice(0, -2)) ? name.slice(0, -2) : []))
}

async function collectOne(source: HistorySource, options: GarbageOptions): Promise<CollectedSession> {
  const { sessionId: id, commits, clock, loading } = source
  const tally = { id, commits: 0, packs: 0 }
  const store = counting(reclaimStoreOf(source, options.failpoint), tally, options.dryRun === true)
  try {
    const head = await findHead(commits)
    if (head.is === 'forgotten') return tally
    if (head.is === 'none') return await collectOrphan(source, tally, options)
    const { commit } = head
    if (commit.kind === 'removed') return await collectRemoved(source, commit, store, tally, options)
    if (commit.kind === 'migrate') return tally
    if (await isExpired(source, commit)) {
      await refuseLive(source, options)
      if (options.dryRun !== true) await removeOpened(source, options)
      return { ...tally, ended: 'expired' }
    }
    const policy = keepPolicy(source.keep)
    await reclaim(store, commit, { policy, nowMs: clock.now() })
    if (options.claim === true) await collectBehindClaim(source, commit, store, options)
    if (tally.commits + tally.packs > 0 && options.dryRun !== true)
      await source.objects.place.store.flush(waiting(loading.signal))
    return tally
  } catch (error) {
    loading.signal?.throwIfAborted()
    if (!isNexusError(error) || !['CORRUPT', 'UNSUPPORTED', 'LOCKED', 'PRECONDITION'].includes(error.code)) throw error
    return { ...tally, kept: error.message }
  }
}

/** Takes away, or only counts, and says how much. */
function counting(store: ReclaimStore, tally: { commits: number; packs: number }, dryRun: boolean): ReclaimStore {
  return {
    list: (folder) => store.list(folder),
    read: (generation) => store.read(generation),
    hint: () => store.hint(),
    containers: (generation) => store.containers(generation),
    unburied: (below) => store.unburied(below),
    packs: () => store.packs(),
    bury: async (generation) => {
      if (!dryRun) await store.bury(generation)
      tally.commits += 1
    },
    deletePack: async (pack) => {
      if (!dryRun) await store.deletePack(pack)
      tally.packs += 1
    },
  }
}

async function isExpired({ objects, clock, loading }: HistorySource, { generation }: CommitFacts): Promise<boolean> {
  const found = await objects.readHead(generation, loading.signal)
  const expiresAt = found.is === 'commit' ? found.head.header.expires_at : undefined
  return expiresAt !== undefined && Date.parse(expiresAt) <= clock.now()
}

async function collectOrphan(
  source: HistorySource,
  tally: CollectedSession,
  options: GarbageOptions,
): Promise<CollectedSession> {
  const { objects, clock, loading } = source
  const { store, root } = objects.place
  const packs = await store.list(packsKey(root), waiting(loading.signal))
  const isOld = packs.every(({ modTime }) => modTime !== undefined && clock.now() - modTime.getTime() >= ORPHAN_AGE_MS)
  if (packs.length === 0 || !isOld) return tally
  const gone = { ...tally, packs: packs.length, ended: 'orphan' as const }
  if (options.dryRun === true) return gone
  const removed = await removeOrphans(removalWorld(source, options))
  if (removed === undefined) return tally
  await sweepRemoved(source, removed, options)
  return gone
}

async function collectRemoved(
  source: HistorySource,
  removed: CommitFacts,
  store: ReclaimStore,
  tally: CollectedSession,
  { forgetRemovedMs, dryRun, failpoint = noFailpoint }: GarbageOptions,
): Promise<CollectedSession> {
  const { objects, clock, loading } = source
  await sweepBelow(store, removed, new Set())
  if (tally.commits + tally.packs > 0 && dryRun !== true) await objects.place.store.flush(waiting(loading.signal))
  if (forgetRemovedMs === undefined || clock.now() - removed.completedAtMs < forgetRemovedMs) return tally
  if (dryRun !== true) await forget(source, removed, failpoint)
  return { ...tally, forgotten: true }
}

/** Failpoints of forgetting a removed session. */
export const FORGET_FAILPOINTS: readonly string[] = ['forget:hinted', 'forget:deleted', 'forget:done']

/**
 * Deletes the whole prefix. The hint leads to the removal until that is gone too: cut anywhere, the session is removed or was
 * never there.
 */
async function forget(
  { objects, commits, loading }: HistorySource,
  { generation }: CommitFacts,
  failpoint: Failpoint,
): Promise<void> {
  const { store, root } = objects.place
  const each = waiting(loading.signal)
  await commits.leaveHint(generation)
  await store.flush(each)
  await failpoint('forget:hinted')
  for (let folder = folderOf(FIRST_GENERATION); folder <= folderOf(generation); folder++) {
    const listed = await store.list(folderKey(root, folder), each)
    const below = listed.filter(({ key }) => key !== commitKey(root, generation))
    await forEachBounded(
      below,
      loading.concurrency,
      async ({ key }, _at, signal) => {
        await store.delete(key, { signal })
        await failpoint('forget:deleted')
      },
      loading.signal,
    )
  }
  for (const { key } of await store.list(packsKey(root), each)) await store.delete(key, each)
  await store.flush(each)
  await store.delete(commitKey(root, generation), each)
  await store.delete(hintKey(root), each)
  await store.flush(each)
  await failpoint('forget:done')
}

/** Claims the session, so that nobody can name what was uploaded before, and deletes packs that nothing kept names. */
async function collectBehindClaim(
  source: HistorySource,
  head: CommitFacts,
  store: ReclaimStore,
  options: GarbageOptions,
): Promise<void> {
  await refuseLive(source, options)
  const packs = await store.packs()
  const policy = keepPolicy(source.keep)
  const kept =
    (await lowestKept(source.commits, head.generation, { policy, nowMs: source.clock.now() })) ?? FIRST_GENERATION
  if (options.dryRun === true) {
    const claim = { generation: head.generation + 1, digest: '' }
    const named = await namedFrom(source, store, kept, head.generation)
    await takeAway(store, { commits: [], packs: packsBelowClaim(claim, named, packs) })
    return
  }
  const { state } = await openGeneration(source, head.generation)
  const claim = await commitBehind(source, head, (generation) =>
    prepareEmpty(source, 'claim', baseOn(head, generation, state), options),
  )
  if (claim === 'lost') {
    const message = `session ${source.sessionId} was committed by another host meanwhile`
    throw new NexusError('PRECONDITION', message, { op: 'history.gc', key: source.sessionId })
  }
  const named = await namedFrom(source, store, kept, claim.generation)
  await takeAway(store, { commits: [], packs: packsBelowClaim(claim, named, packs) })
}

/** Packs that any commit names from the lowest kept one to the head. */
async function namedFrom(
  { sessionId, loading }: HistorySource,
  store: ReclaimStore,
  kept: number,
  head: number,
): Promise<Set<string>> {
  const named = new Set<string>()
  const generations = Array.from({ length: head - kept + 1 }, (_, at) => kept + at)
  await forEachBounded(
    generations,
    loading.concurrency,
    async (generation) => {
      const containers = await store.containers(generation)
      if (containers === undefined && generation === head) {
        throw new NexusError('PRECONDITION', `session ${sessionId} changed meanwhile`, { op: 'history.gc' })
      }
      // A tombstone names nothing.
      for (const pack of containers?.packs ?? []) named.add(pack)
    },
    loading.signal,
  )
  return named
}
