import type { CommitId, CommitKind, Found } from '../../src/versioned/core/commit-facts.ts'
import type { LineState } from '../../src/versioned/core/commit-line.ts'
import type { SessionRecord } from '../../src/versioned/core/session-record.ts'
import { hashOf } from './explorer.ts'
import type { Ask } from './program.ts'

// The world of the exploration: a store, the disks of its hosts, and what was promised to somebody. All of it is plain JSON.

/** A session tree: the turns it went through, as bits, what its one file holds, and the pack that holds its one large blob. */
export interface Tree {
  turns: number
  value: string
  blob: string
}

/** A commit is what it holds, and where its payload lies: `c7` in commit 7, otherwise a pack. */
export interface Commit extends CommitId, Tree {
  kind: CommitKind
  parent?: CommitId | undefined
  nonce: string
  where: string
}

export interface Disk {
  tree: Tree
  record: SessionRecord
  /** A pack that its record lists: uploaded, and named by no commit. */
  uploaded?: string
}

export interface Actor {
  name: string
  role: 'writer' | 'shared' | 'reader' | 'reclaimer' | 'claiming-reclaimer' | 'remover'
  /** What a cloned machine has in common with the other. */
  seed: string
  power: 'off' | 'on' | 'unborn'
  disk: Disk | null
  /** An older copy of the disk that it may be rolled back to. */
  copy?: Disk
  line?: LineState<Commit>
  /** Booted with the store down: the record as it was. */
  unjudged?: SessionRecord | null
  lost?: boolean
  /** The number of the program that it is in. */
  running?: number
  /** How often it may still do each thing. */
  left: Partial<Record<Move, number>>
}

export type Move =
  | 'turn'
  | 'retry'
  | 'boot'
  | 'create'
  | 'lazy-boot'
  | 'boot-down'
  | 'crash'
  | 'copy'
  | 'roll-back'
  | 'clone'
  | 'upload'
  | 'run'

/** A put that the store may still receive. */
export type Late = { op: 'create'; commit: Commit } | { op: 'bury'; generation: number }

export interface World {
  /** By generation less 1; null where a number is free below the head, which must not be. */
  commits: ({ commit: Commit; isTombstone: boolean } | null)[]
  packs: string[]
  late: Late[]
  actors: Actor[]
  /** Turns that somebody was promised. */
  acked: number
  turns: number
  uploads: number
  /** How many calls may still go wrong. */
  faults: number
  /** What a program did that it never may. */
  wrong?: string
}

/** How far below the head something is safe: one stands for 64. */
export const DISTANCE = 2

export function commitOf(content: Omit<Commit, 'digest'>): Commit {
  return { ...content, digest: hashOf(JSON.stringify(content)).toString(36) }
}

export function topOf(world: World): number {
  return world.commits.length
}

/** One way in which a question can be answered. */
export interface Answered {
  label: string
  world: World
  answer: { ok: unknown } | { failed: string }
}

export interface StoreFaults {
  /** A reclaimer that deletes commits. */
  deletesCommits: boolean
}

/** Every way in which the store may answer. The actor's own disk is answered elsewhere. */
export function answers(world: World, { call, args }: Ask, faults: StoreFaults, isCommitting: boolean): Answered[] {
  const same = (ok: unknown): Answered => ({ label: call, world, answer: { ok } })
  const [arg] = args
  switch (call) {
    case 'hint':
      return [same(null)]
    case 'list': {
      const all = world.commits.flatMap((each) => (each === null ? [] : [each.commit.generation]))
      return [same(all), ...failing(world, isCommitting, { label: 'list lags', world, answer: { ok: [] } })]
    }
    case 'read': {
      const read = same(foundAt(world, arg as number))
      return [read, ...failing(world, isCommitting, { label: 'read fails', world, answer: LOST })]
    }
    case 'flush':
      return [same(null), ...failing(world, true, { label: 'flush fails', world, answer: LOST })]
    case 'create':
      return createdWays(world, arg as Commit)
    case 'bury':
      return buriedWays(world, arg as number, faults)
    case 'containers':
      return [same(containersOf(world, arg as number))]
    case 'unburied': {
      const below = world.commits.slice(0, (arg as number) - 1)
      return [same(below.flatMap((each) => (each === null || each.isTombstone ? [] : [each.commit.generation])))]
    }
    case 'packs':
      return [same(world.packs)]
    case 'put pack':
      return [{ label: call, world: { ...world, packs: [...world.packs, arg as string] }, answer: { ok: null } }]
    case 'delete pack':
      return [
        {
          label: `${call} ${arg as string}`,
          world: { ...world, packs: world.packs.filter((file) => file !== arg) },
          answer: { ok: null },
        },
      ]
    case 'payload':
      return [same(isThere(world, arg as string))]
    case 'index':
      return [same(world.commits[(arg as CommitId).generation - 1]?.commit ?? null)]
    default:
      throw new Error(`the world doesn't know ${call}`)
  }
}

const LOST = { failed: 'no answer' }

function failing(world: World, applies: boolean, way: Answered): Answered[] {
  return applies && world.faults > 0 ? [{ ...way, world: { ...way.world, faults: world.faults - 1 } }] : []
}

function createdWays(world: World, commit: Commit): Answered[] {
  const label = `create ${commit.generation} (${commit.kind}, turns ${commit.turns})`
  const { world: after, isNew } = created(world, commit)
  const ways: Answered[] = [{ label: `${label}: ${isNew}`, world: after, answer: { ok: isNew } }]
  if (world.faults === 0) return ways
  const faults = world.faults - 1
  const late: Late[] = [...world.late, { op: 'create', commit }]
  return [
    ...ways,
    { label: `${label}: answer lost, effect ${isNew}`, world: { ...after, faults }, answer: LOST },
    { label: `${label}: lost or late`, world: { ...world, faults, late }, answer: LOST },
    { label: `${label}: ${isNew}, and a second time later`, world: { ...after, faults, late }, answer: { ok: isNew } },
  ]
}

function created(world: World, commit: Commit): { world: World; isNew: boolean } {
  const at = commit.generation - 1
  if ((world.commits[at] ?? null) !== null) return { world, isNew: false }
  const commits = [...world.commits]
  while (commits.length < at) commits.push(null)
  commits[at] = { commit, isTombstone: false }
  return { world: { ...world, commits }, isNew: true }
}

function buriedWays(world: World, generation: number, faults: StoreFaults): Answered[] {
  const label = `bury ${generation}`
  const ways: Answered[] = [{ label, world: buried(world, generation, faults), answer: { ok: null } }]
  if (world.faults === 0) return ways
  const late: Late[] = [...world.late, { op: 'bury', generation }]
  return [...ways, { label: `${label}: late`, world: { ...world, faults: world.faults - 1, late }, answer: LOST }]
}

function buried(world: World, generation: number, { deletesCommits }: StoreFaults): World {
  const commits = [...world.commits]
  const old = commits[generation - 1]
  if (old === null || old === undefined) return world
  commits[generation - 1] = deletesCommits ? null : { ...old, isTombstone: true }
  return { ...world, commits }
}

/** The store receives a put that was on its way. */
export function delivered(world: World, index: number, faults: StoreFaults): World {
  const put = world.late[index]
  if (put === undefined) return world
  const rest = { ...world, late: world.late.filter((_, i) => i !== index) }
  return put.op === 'bury' ? buried(rest, put.generation, faults) : created(rest, put.commit).world
}

export function foundAt(world: World, generation: number): Found {
  const at = world.commits[generation - 1] ?? null
  if (at === null) return { is: 'missing' }
  if (at.isTombstone) return { is: 'tombstone' }
  const { digest, kind, parent, nonce } = at.commit
  return { is: 'commit', commit: { generation, digest, kind, parent, instanceId: '', nonce, completedAtMs: 0 } }
}

function containersOf(world: World, generation: number): { packs: string[]; lowestCommit: number } | null {
  const at = world.commits[generation - 1] ?? null
  if (at === null || at.isTombstone) return null
  const named = payloadOf(at.commit)
  const commits = named.flatMap((where) => (where.startsWith('c') ? [Number(where.slice(1))] : []))
  return { packs: named.filter((where) => !where.startsWith('c')), lowestCommit: Math.min(generation, ...commits) }
}

export function payloadOf({ where, blob, kind }: Commit): string[] {
  if (kind === 'removed') return []
  return blob === '' ? [where] : [where, blob]
}

export function isThere(world: World, where: string): boolean {
  if (!where.startsWith('c')) return world.packs.includes(where)
  const at = world.commits[Number(where.slice(1)) - 1] ?? null
  return at !== null && !at.isTombstone
}

/** Promises alone: for stores that free numbers. */
export function brokenPromise(world: World): string | undefined {
  const head = world.commits.at(-1)?.commit
  const missed = world.acked & ~(head?.turns ?? 0)
  return missed === 0 ? undefined : `turns ${missed} were promised and the head lacks them`
}

/** What must hold in every state. */
export function violationOf(world: World): string | undefined {
  if (world.wrong !== undefined) return world.wrong
  let before: Commit | undefined
  let turnsBeforeRemoval = 0
  let turnsSoFar = 0
  for (const [index, at] of world.commits.entries()) {
    if (at === null) return `number ${index + 1} is free again`
    const { commit } = at
    if (commit.parent?.digest !== before?.digest) return `commit ${commit.generation} does not follow the one before`
    if ((commit.turns & turnsBeforeRemoval) !== 0) return `commit ${commit.generation} brings back what was removed`
    turnsSoFar |= commit.turns
    if (commit.kind === 'removed') turnsBeforeRemoval = turnsSoFar
    before = commit
  }
  if (before === undefined) return world.acked === 0 ? undefined : 'a turn was promised and there is no commit'
  const missed = world.acked & ~before.turns & ~turnsBeforeRemoval
  if (missed !== 0) return `turns ${missed} were promised and the head lacks them`
  const removedAt = world.commits.findLastIndex((at) => at?.commit.kind === 'removed') + 1
  for (let kept = Math.max(1, before.generation - DISTANCE, removedAt); kept <= before.generation; kept++) {
    const commit = world.commits[kept - 1]?.commit
    const missing = commit === undefined ? undefined : payloadOf(commit).find((where) => !isThere(world, where))
    if (missing !== undefined) return `commit ${kept} is kept, and ${missing} is gone`
  }
  return undefined
}
