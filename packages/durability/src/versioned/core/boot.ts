import type { CommitFacts, CommitId } from './commit-facts.ts'
import { CommitLine, type LineState } from './commit-line.ts'
import type { AttemptStore } from './commit-store.ts'
import type { SessionRecord } from './session-record.ts'
import { judgeTree } from './tree-judgement.ts'

/** When a run takes the session from the writer before it. */
export type ClaimTime = 'boot' | 'first-commit'

/** What a boot works with. */
export interface BootWorld<A extends CommitId> {
  store: AttemptStore<A>
  /** The record of the tree that is there now; undefined while there is none. */
  record: () => SessionRecord | undefined
  /** Notes an attempt in that record, durably. */
  note: (attempt: A) => Promise<void>
  /** Puts the newest commit in the place of the tree, with a record that begins with it. */
  restore: () => Promise<CommitId>
  /** Puts a new tree with an empty record in the place of the tree. */
  renew: () => Promise<void>
  /** Gives up the packs that the record lists. */
  dropPacks: () => Promise<void>
  /** Empties the record and leaves the tree. */
  forget: () => Promise<void>
  /** A commit that holds the parent's tree; without a parent, or after a removal, the fresh tree. */
  prepareClaim: (parent: CommitId | undefined, generation: number) => Promise<A>
}

export interface BootPolicy {
  claim: ClaimTime
  /** A session that was removed begins anew; otherwise that ends the boot. */
  create: boolean
  /** Where the store forgot the session, the tree counts as never stored. */
  acceptEmpty: boolean
}

/**
 * How a boot ended. `serving`: the tree is there and the line goes on from it; an unresolved claim goes out before anything
 * else. `lost`: it couldn't be claimed, since other hosts kept on committing.
 */
export type Boot<A extends CommitId> =
  | { is: 'serving'; line: LineState<A> }
  | { is: 'removed' | 'moved'; head: CommitFacts }
  | { is: 'forgotten'; generation: number }

/** From then on a boot claims before it fetches, so that the others stop. */
const CLAIM_FIRST_AFTER_LOSSES = 3

/**
 * Settles the tree that a run starts from, and claims the session for it.
 *
 * @throws what {@link judgeTree} and `restore` throw
 */
export async function bootSession<A extends CommitId>(
  world: BootWorld<A>,
  { claim, create, acceptEmpty }: BootPolicy,
): Promise<Boot<A>> {
  for (let losses = 0; ; losses++) {
    const judged = await judgeTree(world.store, world.record())
    if (judged.is === 'moved' || (judged.is === 'removed' && !create)) return { is: judged.is, head: judged.head }
    if (judged.is === 'forgotten') {
      if (!acceptEmpty) return judged
      await world.forget()
      continue
    }
    const isStale = judged.is === 'stale'
    const claimsFirst = isStale && claim === 'boot' && losses >= CLAIM_FIRST_AFTER_LOSSES
    let parent: CommitId | undefined = 'head' in judged ? judged.head : undefined
    if (isStale && !claimsFirst) parent = await world.restore()
    if (judged.is === 'removed' || world.record() === undefined) await world.renew()
    if (judged.is === 'claimed') await world.dropPacks()
    const earlier = world.record()?.attempts ?? []
    // The record is still that of the tree which lacks what the claim holds: naming the claim there would keep that tree.
    const note = claimsFirst ? async () => undefined : world.note
    const line = new CommitLine(world.store, note, { parent, earlier })
    if (claim === 'first-commit') return { is: 'serving', line: line.state }
    const outcome = await line.commit(world.prepareClaim)
    if (outcome.is === 'lost') continue
    if (claimsFirst) {
      const restored = await world.restore()
      if (restored.digest !== line.state.parent?.digest) continue
    }
    return { is: 'serving', line: line.state }
  }
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
