import type { CommitFacts, CommitId } from './commit-facts.ts'
import { CommitLine, type LineOutcome, type LineState } from './commit-line.ts'
import type { AttemptStore } from './commit-store.ts'
import type { SessionRecord } from './session-record.ts'
import { judgeTree, type Judgement } from './tree-judgement.ts'

/** When a run takes the session from the writer before it. */
export type ClaimTime = 'boot' | 'first-commit'

/** What a boot works with. */
export interface BootWorld<A extends CommitId> {
  store: AttemptStore<A>
  /** The record of the tree that is there now; an empty one for a tree that has none, undefined while there is no tree. */
  record: () => SessionRecord | undefined
  /** Notes an attempt in that record, durably. */
  note: (attempt: A) => Promise<void>
  /** Nothing was ever committed: rejects where the session must not begin all the same. */
  begins: () => Promise<void>
  /** Whether a tree that holds this head, or all but claims of it, may be used: nothing tore it, and nobody gives it up. */
  accepts: (head: CommitFacts) => Promise<boolean>
  /**
   * Puts the newest commit in the place of the tree, with a record that begins with it.
   *
   * @param head the newest at the last look
   */
  restore: (head: CommitId) => Promise<CommitId>
  /** Puts a new tree with an empty record in the place of the tree. */
  renew: () => Promise<void>
  /** Gives up the packs that the record lists. */
  dropPacks: () => Promise<void>
  /** Empties the record and leaves the tree. */
  forget: () => Promise<void>
  /** A commit that holds the parent's tree; without a parent, or after a removal, the tree that is there. */
  prepareClaim: (parent: CommitId | undefined, generation: number) => Promise<A>
  /** Whether the claim may wait when preparing it failed like this. */
  mayWait: (error: unknown) => boolean
}

export interface BootPolicy {
  claim: ClaimTime
  /** The id was generated just now: the session is new unless its claim says otherwise. */
  isFresh?: boolean
  /** A session that was removed begins anew; otherwise that ends the boot. */
  create: boolean
  /** Where the store forgot the session, the tree counts as never stored. */
  acceptEmpty: boolean
}

/**
 * How a boot ended. `serving`: the tree is there and the line goes on from it; an unresolved claim goes out before anything
 * else, and `doubt` says why there is none yet. `contended`: other hosts kept on committing.
 */
export type Boot<A extends CommitId> =
  | { is: 'serving'; line: LineState<A>; doubt?: Error | undefined }
  | { is: 'removed' | 'moved'; head: CommitFacts }
  | { is: 'forgotten'; generation: number }
  | { is: 'contended' }

/** From then on a boot claims before it fetches, so that the others stop. */
const CLAIM_FIRST_AFTER_LOSSES = 3
/** Each loss is a commit of somebody else's: so many, and the session is fought for. */
const MAX_LOSSES = 64

/**
 * Settles the tree that a run starts from, and claims the session for it.
 *
 * @throws what {@link judgeTree} and the methods of `world` throw
 */
export async function bootSession<A extends CommitId>(
  world: BootWorld<A>,
  { claim, isFresh = false, create, acceptEmpty }: BootPolicy,
): Promise<Boot<A>> {
  for (let losses = 0; losses < MAX_LOSSES; losses++) {
    const isNew = isFresh && losses === 0
    const judged: Judgement = isNew ? { is: 'new' } : await judgeTree(world.store, world.record())
    if (judged.is === 'moved' || (judged.is === 'removed' && !create)) return { is: judged.is, head: judged.head }
    if (judged.is === 'forgotten') {
      if (!acceptEmpty) return judged
      await world.forget()
      continue
    }
    if (judged.is === 'new' && !isNew) await world.begins()
    const isHeld = judged.is === 'held' || judged.is === 'claimed'
    const isStale = judged.is === 'stale' || (isHeld && !(await world.accepts(judged.head)))
    const claimsFirst = isStale && claim === 'boot' && losses >= CLAIM_FIRST_AFTER_LOSSES
    const head = 'head' in judged ? judged.head : undefined
    const parent = isStale && !claimsFirst && head !== undefined ? await world.restore(head) : head
    if (judged.is === 'removed' || (judged.is === 'new' && world.record() === undefined)) await world.renew()
    if (judged.is === 'claimed' && !isStale) await world.dropPacks()
    const earlier = world.record()?.attempts ?? []
    // The record is still that of the tree which lacks what the claim holds: naming the claim there would keep that tree.
    const note = claimsFirst ? async () => undefined : world.note
    const line = new CommitLine(world.store, note, { parent, earlier })
    if (claim === 'first-commit') return { is: 'serving', line: line.state }
    const outcome = await claimOn(line, world, claimsFirst)
    if (outcome.is === 'lost') continue
    if (claimsFirst && line.state.parent !== undefined) {
      const restored = await world.restore(line.state.parent)
      if (restored.digest !== line.state.parent?.digest) continue
    }
    return {
      is: 'serving',
      line: line.state,
      ...(outcome.is === 'unknown' ? { doubt: outcome.cause ?? silent() } : {}),
    }
  }
  return { is: 'contended' }
}

async function claimOn<A extends CommitId>(
  line: CommitLine<A>,
  { prepareClaim, mayWait }: BootWorld<A>,
  claimsFirst: boolean,
): Promise<LineOutcome<A>> {
  try {
    return await line.commit(prepareClaim)
  } catch (error) {
    if (claimsFirst || !mayWait(error)) throw error
    return { is: 'unknown', cause: error as Error }
  }
}

function silent(): Error {
  return new Error('the store contradicts itself: the number of the claim is taken, and nothing is there')
}

/** What a run whose boot couldn't ask the store learns before its first commit. */
export type LateJudgement<A extends CommitId> =
  | { is: 'serving'; line: LineState<A>; dropsPacks: boolean }
  | { is: 'lost'; winner: CommitFacts }
  | { is: 'forgotten'; generation: number }

/**
 * Judges, before the first commit, a tree that was used unjudged because the store was down at boot. It can't be replaced any
 * more, so a run on anything but the newest tree is lost.
 *
 * @param record as it was at boot
 */
export async function judgeLate<A extends CommitId>(
  store: AttemptStore<A>,
  record: SessionRecord | undefined,
): Promise<LateJudgement<A>> {
  const judged = await judgeTree(store, record)
  if (judged.is === 'forgotten') return judged
  const earlier = record?.attempts ?? []
  if (judged.is === 'new') return { is: 'serving', line: { parent: undefined, earlier }, dropsPacks: false }
  const { head } = judged
  if (judged.is !== 'held' && judged.is !== 'claimed') return { is: 'lost', winner: head }
  return { is: 'serving', line: { parent: head, earlier }, dropsPacks: judged.is === 'claimed' }
}
