import { bootSession, judgeLate, type BootPolicy } from '../../src/versioned/core/boot.ts'
import type { CommitId, Containers, Found } from '../../src/versioned/core/commit-facts.ts'
import { CommitLine, type LineState } from '../../src/versioned/core/commit-line.ts'
import type { AttemptStore, CommitStore } from '../../src/versioned/core/commit-store.ts'
import { findHead } from '../../src/versioned/core/head-search.ts'
import { readNewest, type Fetched } from '../../src/versioned/core/newest-reader.ts'
import { mayName, packsBelowClaim, reclaim, type ReclaimStore, sweepBelow } from '../../src/versioned/core/reclaim.ts'
import { removeSession } from '../../src/versioned/core/removal.ts'
import { recordOf, type SessionRecord, withLine } from '../../src/versioned/core/session-record.ts'
import { judgeTree } from '../../src/versioned/core/tree-judgement.ts'
import { packFile, type PackName, parsePackFile } from '../../src/versioned/core/versioned-keys.ts'
import { type Commit, commitOf, DISTANCE, payloadOf, type Tree } from './model.ts'
import type { Asks, Program } from './program.ts'

// What the actors of the exploration do: the code of the product, over questions to the model.

/** The ways in which a mutant differs from the product. */
export interface Mutation {
  /** What a writer takes for its own, where its number is taken. */
  onTaken?: (found: Found, attempt: Commit) => Found
  /** How the judge of a local tree sees a commit. */
  onJudged?: (found: Found) => Found
  containers?: (containers: Containers, kept: number) => Containers
  /** How far from the truth a reclaimer reads the numbers of packs. */
  packOffset?: number
  deletesCommits?: boolean
  /** Payload is taken from any commit that has it. */
  dedupesBeyondParent?: boolean
  retriesWithNewBytes?: boolean
  recordBesideTree?: boolean
  skipsLateJudgement?: boolean
  rereadsItsCommit?: boolean
  claimsSharedOverNewer?: boolean
  keepsPacksUnderClaims?: boolean
  namesOldPacks?: boolean
}

export interface BootInput {
  policy: BootPolicy
  record: SessionRecord | null
  seed: string
}

export interface CommitInput {
  /** Undefined for a run whose boot couldn't ask the store. */
  line: LineState<Commit> | null
  record: SessionRecord | null
  tree: Tree
  seed: string
  bootId: string
  /** Take the blob too. */
  blob: boolean
}

export interface CommitDone {
  is: 'committed' | 'lost' | 'unknown' | 'forgotten'
  line: LineState<Commit> | null
  /** Turns of this tree that are promised from now on. */
  acked: number
  dropsPacks: boolean
}

export function programsOf(mutation: Mutation): Record<string, Program> {
  return {
    boot: (input: BootInput, ask) => boot(input, ask, mutation),
    commit: (input: CommitInput, ask) => commit(input, ask, mutation),
    shared: (input: CommitInput, ask) => commitShared(input, ask, mutation),
    read: (_: never, ask) => read(ask, mutation),
    reclaim: (_: never, ask) => reclaimOnce(ask, mutation),
    'claim and reclaim': (input: { seed: string }, ask) => claimAndReclaim(input.seed, ask, mutation),
    remove: (input: { seed: string }, ask) => remove(input.seed, ask, mutation),
    upload: async ({ file }: { file: string }, ask) => {
      await ask('put pack', file)
      return file
    },
  }
}

async function boot({ policy, record, seed }: BootInput, ask: Asks, mutation: Mutation): Promise<unknown> {
  let known = record ?? undefined
  const note = async (attempt: Commit): Promise<void> => {
    if (known !== undefined) known = withLine(known, { attempt: idOf(attempt) })
    await ask('note', idOf(attempt))
  }
  const store = storeOf(ask, mutation)
  const judging = { ...store, read: async (generation: number) => judged(await store.read(generation), mutation) }
  return await bootSession<Commit>(
    {
      store: judging,
      record: () => known,
      note,
      begins: async () => undefined,
      accepts: async () => true,
      mayWait: () => true,
      restore: async () => {
        const restored = await readNewest(store, (head) => fetchCommit(ask, head))
        if (restored === undefined) throw Object.assign(new Error('nothing to restore'), { code: 'NOT_FOUND' })
        known = recordOf('', idOf(restored))
        await ask('place', restored)
        return idOf(restored)
      },
      renew: async () => {
        known = recordOf('', undefined)
        await ask('renew')
      },
      dropPacks: async () => {
        if (mutation.keepsPacksUnderClaims !== true) await ask('drop packs')
      },
      forget: async () => {
        known = recordOf('', undefined)
        await ask('forget')
      },
      prepareClaim: async (parent, generation) => {
        const held = parent === undefined ? null : ((await ask('index', parent)) as Commit)
        if (held !== null && held.kind !== 'removed') return claimOf(held, generation, seed)
        const tree = (await ask('tree')) as Tree
        return attemptOf({ parent: held, generation, kind: 'claim', seed, tree, where: `c${generation}` })
      },
    },
    policy,
  )
}

async function commit(input: CommitInput, ask: Asks, mutation: Mutation): Promise<CommitDone> {
  const store = storeOf(ask, mutation)
  let state = input.line
  let dropsPacks = false
  if (state === null) {
    const late =
      mutation.skipsLateJudgement === true
        ? await trustHead(store)
        : await judgeLate<Commit>(store, input.record ?? undefined)
    if (late.is !== 'serving') return { is: late.is, line: null, acked: 0, dropsPacks: false }
    state = late.line
    dropsPacks = late.dropsPacks
  }
  const tree = dropsPacks ? { ...input.tree, blob: '' } : input.tree
  return { ...(await commitOn(state, { ...input, tree }, ask, mutation)), dropsPacks }
}

async function trustHead(store: CommitStore): Promise<{ is: 'serving'; line: LineState<Commit>; dropsPacks: boolean }> {
  const head = await findHead(store)
  return {
    is: 'serving',
    line: { parent: head.is === 'commit' ? head.commit : undefined, earlier: [] },
    dropsPacks: false,
  }
}

async function commitShared(input: CommitInput, ask: Asks, mutation: Mutation): Promise<CommitDone> {
  const record = input.record ?? undefined
  const judgement = await judgeTree(storeOf(ask, mutation), record)
  const isOver = judgement.is === 'stale' && mutation.claimsSharedOverNewer === true
  if (judgement.is !== 'held' && judgement.is !== 'claimed' && !isOver) {
    return { is: 'lost', line: null, acked: 0, dropsPacks: false }
  }
  const line = { parent: judgement.head, earlier: record?.attempts ?? [] }
  return await commitOn(line, input, ask, mutation)
}

async function commitOn(
  before: LineState<Commit>,
  { tree, seed, blob }: CommitInput,
  ask: Asks,
  mutation: Mutation,
): Promise<CommitDone> {
  const store = storeOf(ask, mutation)
  const given = mutation.retriesWithNewBytes === true ? { ...before, unresolved: undefined } : before
  const line = new CommitLine<Commit>(store, async (attempt) => void (await ask('note', idOf(attempt))), given)
  const outcome = await line.commit(async (parent, generation) => {
    const held = parent === undefined ? null : ((await ask('index', parent)) as Commit)
    const where = await placeOf(tree, held, generation, ask, mutation)
    const takesBlob = blob && tree.blob !== '' && canName(tree.blob, held, generation, mutation)
    const named = takesBlob ? tree.blob : (held?.blob ?? '')
    return attemptOf({ parent: held, generation, kind: 'turn', seed, tree: { ...tree, blob: named }, where })
  })
  const after = line.state
  // What landed is what counts: an attempt that was resolved on the way holds the turns it was made of, and no more.
  const landed = (after.parent as Partial<Commit> | undefined)?.turns ?? 0
  const acked = outcome.is === 'committed' && mutation.retriesWithNewBytes === true ? tree.turns : landed
  return { is: outcome.is, line: after, acked, dropsPacks: false }
}

function canName(file: string, held: Commit | null, generation: number, { namesOldPacks = false }: Mutation): boolean {
  const pack = parsePackFile(file)
  if (pack === undefined) return false
  return held?.blob === file || namesOldPacks || mayName(pack, generation, DISTANCE)
}

/** Where a commit finds what the file holds: where its parent has it, or in itself. */
async function placeOf(
  tree: Tree,
  held: Commit | null,
  generation: number,
  ask: Asks,
  mutation: Mutation,
): Promise<string> {
  if (held !== null && held.kind !== 'removed' && held.value === tree.value) return held.where
  if (mutation.dedupesBeyondParent === true) {
    for (let at = generation - 1; at >= 1; at--) {
      const older = (await ask('index', { generation: at, digest: '' })) as Commit
      if (older.value === tree.value && older.where === `c${at}` && (await ask('payload', older.where)) === true)
        return older.where
    }
  }
  return `c${generation}`
}

async function read(ask: Asks, { rereadsItsCommit = false }: Mutation): Promise<unknown> {
  const store = storeOf(ask, {})
  if (!rereadsItsCommit) return (await readNewest(store, (head) => fetchCommit(ask, head))) ?? null
  const head = await findHead(store)
  if (head.is !== 'commit' || head.commit.kind === 'removed') return null
  const fetched = await fetchCommit(ask, head.commit)
  if (fetched.is === 'content') return fetched.content
  // It takes a commit that is still there for one that wasn't reclaimed.
  if ((await store.read(head.commit.generation)).is === 'commit') throw fetched.error
  return null
}

async function fetchCommit(ask: Asks, head: CommitId): Promise<Fetched<Commit>> {
  const gone = { is: 'gone' as const, error: Object.assign(new Error('payload is gone'), { code: 'CORRUPT' }) }
  const content = (await ask('index', head)) as Commit
  for (const where of payloadOf(content)) if ((await ask('payload', where)) !== true) return gone
  return { is: 'content', content }
}

async function reclaimOnce(ask: Asks, mutation: Mutation): Promise<unknown> {
  const store = reclaimStoreOf(ask, mutation)
  const head = await findHead(store)
  if (head.is !== 'commit' || head.commit.kind === 'removed') return null
  return (await reclaim(store, head.commit, { policy: KEEP_NOTHING, nowMs: 1, distance: DISTANCE })) ?? null
}

const KEEP_NOTHING = { generations: 0, ageMs: 0, atMost: Number.MAX_SAFE_INTEGER }

async function claimAndReclaim(seed: string, ask: Asks, mutation: Mutation): Promise<unknown> {
  const store = { ...storeOf(ask, mutation), ...reclaimStoreOf(ask, mutation) }
  const head = await findHead(store)
  if (head.is !== 'commit' || head.commit.kind === 'removed') return null
  const line = new CommitLine<Commit>(store, async () => undefined, { parent: head.commit, earlier: [] })
  const outcome = await line.commit(async (parent, generation) =>
    claimOf((await ask('index', parent)) as Commit, generation, seed),
  )
  if (outcome.is !== 'committed') return null
  const claim = outcome.attempt
  const named = new Set<string>()
  for (let kept = Math.max(1, claim.generation - DISTANCE); kept <= claim.generation; kept++) {
    const containers = await store.containers(kept)
    for (const file of containers?.packs ?? []) named.add(file)
  }
  for (const pack of packsBelowClaim(claim, named, await store.packs())) await store.deletePack(pack)
  return null
}

async function remove(seed: string, ask: Asks, mutation: Mutation): Promise<unknown> {
  const store = { ...storeOf(ask, mutation), ...reclaimStoreOf(ask, mutation) }
  const tree = { turns: 0, value: '', blob: '' }
  const removed = await removeSession<Commit>({
    store,
    prepareRemoved: async (parent, generation) =>
      attemptOf({ parent: parent ?? null, generation, kind: 'removed', seed, tree, where: `c${generation}` }),
  })
  return await sweepBelow(store, removed, new Set())
}

function storeOf(ask: Asks, { onTaken = (found) => found }: Mutation): AttemptStore<Commit> {
  let taken: Commit | undefined
  return {
    list: async (folder) => (await ask('list', folder)) as number[],
    hint: async () => ((await ask('hint')) ?? undefined) as number | undefined,
    read: async (generation) => {
      const found = (await ask('read', generation)) as Found
      return taken?.generation === generation ? onTaken(found, taken) : found
    },
    create: async (attempt) => {
      const isNew = (await ask('create', attempt)) as boolean
      taken = isNew ? undefined : attempt
      return isNew
    },
    flush: async () => void (await ask('flush')),
  }
}

function reclaimStoreOf(ask: Asks, { containers = (each) => each, packOffset = 0 }: Mutation): ReclaimStore {
  return {
    ...storeOf(ask, {}),
    containers: async (generation) => {
      const found = (await ask('containers', generation)) as { packs: string[]; lowestCommit: number } | null
      return found === null ? undefined : containers({ ...found, packs: new Set(found.packs) }, generation)
    },
    unburied: async (below) => (await ask('unburied', below)) as number[],
    packs: async () => {
      const files = (await ask('packs')) as string[]
      return files.flatMap((file) => parsePackFile(file) ?? []).map((pack) => shifted(pack, -packOffset))
    },
    bury: async (generation) => void (await ask('bury', generation)),
    deletePack: async (pack) => void (await ask('delete pack', packFile(shifted(pack, packOffset)))),
  }
}

function shifted(pack: PackName, by: number): PackName {
  return { ...pack, number: pack.number + by }
}

function judged(found: Found, { onJudged = (each) => each }: Mutation): Found {
  return onJudged(found)
}

function idOf({ generation, digest }: CommitId): CommitId {
  return { generation, digest }
}

/** The parent's tree, and nothing of the local one. */
function claimOf(parent: Commit, generation: number, seed: string): Commit {
  const { turns, value, blob, where } = parent
  return attemptOf({ parent, generation, kind: 'claim', seed, tree: { turns, value, blob }, where })
}

interface Parts {
  parent: CommitId | null
  generation: number
  kind: Commit['kind']
  seed: string
  tree: Tree
  where: string
}

/** Clones share their seed, so that they draw the same nonce. */
function attemptOf({ parent, generation, kind, seed, tree, where }: Parts): Commit {
  const { turns, value, blob } = tree
  const parentId = parent === null ? {} : { parent: idOf(parent) }
  return commitOf({ generation, ...parentId, kind, nonce: `${seed}${generation}`, turns, value, blob, where })
}
