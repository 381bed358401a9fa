import { commitIn, type CommitId, type Containers } from './commit-facts.ts'
import type { CommitStore } from './commit-store.ts'
import { FIRST_GENERATION, packFile, type PackName } from './versioned-keys.ts'

/**
 * Commits that always stay below the head, and how far above its own number a pack may be named for the first time. One
 * number, because a pack is safe to delete only once every commit that may still name it for the first time exists.
 */
export const SAFE_DISTANCE = 64

/** Whether a commit may be the first to name a pack. */
export function mayName(pack: PackName, generation: number, distance: number = SAFE_DISTANCE): boolean {
  return pack.number > generation - distance
}

/** What is kept besides what safety demands. A generation goes when it is both overtaken and old, or beyond `atMost`. */
export interface KeepPolicy {
  generations: number
  ageMs: number
  atMost: number
}

/** A store that payload is taken from. Doing any of it late, again or by two at once does no harm. */
export interface ReclaimStore extends CommitStore {
  /** The containers of a commit, read live; undefined when it is a tombstone. */
  containers(generation: number): Promise<Containers | undefined>
  /** Generations below this one that listings don't show as tombstones, lowest first. */
  unburied(below: number): Promise<readonly number[]>
  packs(): Promise<readonly PackName[]>
  /** Overwrites a commit by its tombstone. Its number is never free again. */
  bury(generation: number): Promise<void>
  deletePack(pack: PackName): Promise<void>
}

/** What may go. */
export interface Victims {
  commits: readonly number[]
  packs: readonly PackName[]
}

/** What is known when victims are chosen. */
export interface ReclaimEvidence {
  /** The lowest kept generation, at most the head's less the distance. */
  kept: number
  containers: Containers
  unburied: readonly number[]
  packs: readonly PackName[]
  distance?: number
}

/**
 * What the lowest kept commit lets go. Each container is named by one unbroken run of commits, so one that this commit
 * doesn't name is named by none above it, but for a pack so young that its first naming may be yet to come.
 */
export function victimsBelow({
  kept,
  containers,
  unburied,
  packs,
  distance = SAFE_DISTANCE,
}: ReclaimEvidence): Victims {
  const lowest = Math.min(containers.lowestCommit, kept)
  return {
    commits: unburied.filter((generation) => generation < lowest),
    packs: packs.filter((pack) => pack.number <= kept - distance && !containers.packs.has(packFile(pack))),
  }
}

/**
 * What a commit after which nothing older is reachable lets go: `removed`, which names nothing, or one that stored
 * everything again. Whoever knew an older head has lost its number, so no pack numbered up to it is named any more.
 *
 * @param named packs that the commit names
 */
export function victimsOfBarrier(
  { generation }: CommitId,
  named: ReadonlySet<string>,
  { unburied, packs }: Pick<ReclaimEvidence, 'unburied' | 'packs'>,
): Victims {
  return {
    commits: unburied.filter((each) => each < generation),
    packs: packs.filter((pack) => pack.number <= generation && !named.has(packFile(pack))),
  }
}

/** Packs that go after a claim made for this purpose: numbered up to it, and named by no kept commit. */
export function packsBelowClaim(
  claim: CommitId,
  namedByKept: ReadonlySet<string>,
  packs: readonly PackName[],
): PackName[] {
  return packs.filter((pack) => pack.number <= claim.generation && !namedByKept.has(packFile(pack)))
}

/** Takes victims away, at most `maxWrites` of them, commits first. Returns how many. */
export async function takeAway(
  store: ReclaimStore,
  { commits, packs }: Victims,
  maxWrites: number = Infinity,
): Promise<number> {
  let writes = 0
  for (const generation of commits) {
    if (writes >= maxWrites) return writes
    await store.bury(generation)
    writes += 1
  }
  for (const pack of packs) {
    if (writes >= maxWrites) return writes
    await store.deletePack(pack)
    writes += 1
  }
  return writes
}

/** Takes away what lies below such a commit, also what arrived late. Of `removed`, anybody may do it at any time. */
export async function sweepBelow(
  store: ReclaimStore,
  barrier: CommitId,
  named: ReadonlySet<string>,
  maxWrites?: number,
): Promise<number> {
  const unburied = await store.unburied(barrier.generation)
  const packs = await store.packs()
  return await takeAway(store, victimsOfBarrier(barrier, named, { unburied, packs }), maxWrites)
}

/** How a run of reclaim goes. */
export interface ReclaimOptions {
  policy: KeepPolicy
  nowMs: number
  /** The lowest generation that an earlier run kept. */
  from?: number
  maxWrites?: number
  distance?: number
}

/**
 * Reclaims what lies below the lowest kept generation of a head. Commits nothing, so it may run anywhere, twice, or stop.
 *
 * @returns the lowest kept generation, for the next run; undefined when there was nothing to do
 */
export async function reclaim(
  store: ReclaimStore,
  head: CommitId,
  options: ReclaimOptions,
): Promise<number | undefined> {
  const kept = await lowestKept(store, head.generation, options)
  if (kept === undefined) return undefined
  const containers = await store.containers(kept)
  // Another run has gone further.
  if (containers === undefined) return undefined
  const unburied = await store.unburied(Math.min(containers.lowestCommit, kept))
  const { distance = SAFE_DISTANCE } = options
  const packs = kept > distance ? await store.packs() : []
  await takeAway(store, victimsBelow({ kept, containers, unburied, packs, distance }), options.maxWrites)
  return kept
}

/** How far one step looks ahead; as many commits as lie between two runs. */
const STEP = 32

/**
 * The generation from which on everything is kept: a bound that is never too high. It is found by reading few headers, so
 * what the policy lets go may stay for another run.
 */
export async function lowestKept(
  store: CommitStore,
  head: number,
  { policy, nowMs, from = FIRST_GENERATION, distance = SAFE_DISTANCE }: ReclaimOptions,
): Promise<number | undefined> {
  const highest = head - Math.max(policy.generations, distance)
  if (highest <= FIRST_GENERATION) return undefined
  let kept = Math.max(FIRST_GENERATION, Math.min(highest, Math.max(from, head - policy.atMost + 1)))
  for (let next = kept; ; next = Math.min(next + STEP, highest)) {
    const commit = commitIn(await store.read(next))
    if (commit !== undefined && nowMs - commit.completedAtMs < policy.ageMs) break
    kept = next
    if (next === highest) break
  }
  return kept > FIRST_GENERATION ? kept : undefined
}
