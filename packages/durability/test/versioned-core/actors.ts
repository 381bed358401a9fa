import type { Boot } from '../../src/versioned/core/boot.ts'
import type { CommitId } from '../../src/versioned/core/commit-facts.ts'
import { recordOf, withLine } from '../../src/versioned/core/session-record.ts'
import type { Space, Step } from './explorer.ts'
import {
  type Actor,
  answers,
  brokenPromise,
  type Commit,
  delivered,
  type Disk,
  type Move,
  violationOf,
  type World,
} from './model.ts'
import { type Ask, Programs } from './program.ts'
import { type BootInput, type CommitDone, type CommitInput, type Mutation, programsOf } from './programs.ts'

/** Everything that can happen in a world, one thing at a time. */
export function spaceOf(start: World, mutation: Mutation = {}): Space<World> {
  const moves = new Moves(mutation)
  return {
    start,
    steps: (world) => moves.steps(world),
    violation: mutation.deletesCommits === true ? brokenPromise : violationOf,
  }
}

const TOOLS: Readonly<Partial<Record<Actor['role'], string>>> = {
  reader: 'read',
  reclaimer: 'reclaim',
  'claiming-reclaimer': 'claim and reclaim',
  remover: 'remove',
}

class Moves {
  readonly #mutation: Mutation
  readonly #programs: Programs

  constructor(mutation: Mutation) {
    this.#mutation = mutation
    this.#programs = new Programs(programsOf(mutation))
  }

  async steps(world: World): Promise<Step<World>[]> {
    const faults = this.#faults
    const steps: Step<World>[] = world.late.map((put, index) => ({
      label: `the store receives a late ${put.op}`,
      state: delivered(world, index, faults),
    }))
    for (const [index, actor] of world.actors.entries()) {
      for (const { label, state } of await this.#actorSteps(world, actor)) {
        const settled = await this.#settle(state, index)
        const begun = settled.actors[index]
        if (actor.running !== undefined || begun?.running === undefined) {
          steps.push({ label: `${actor.name}: ${label}`, state: settled })
          continue
        }
        // Nobody sees that a program has begun before its first question: whatever comes in between might as well come before.
        for (const first of await this.#answered(settled, begun)) {
          steps.push({
            label: `${actor.name}: ${label}, ${first.label}`,
            state: await this.#settle(first.state, index),
          })
        }
      }
    }
    return steps
  }

  get #faults(): { deletesCommits: boolean } {
    return { deletesCommits: this.#mutation.deletesCommits === true }
  }

  async #actorSteps(world: World, actor: Actor): Promise<Step<World>[]> {
    const inside =
      actor.running === undefined ? idleSteps(this.#programs, world, actor) : await this.#answered(world, actor)
    return [...inside, ...outsideSteps(world, actor, this.#mutation)]
  }

  async #answered(world: World, actor: Actor): Promise<Step<World>[]> {
    if (actor.running === undefined) return []
    const { running: number } = actor
    const standing = await this.#programs.standing(number)
    if (!('ask' in standing)) throw new Error('a program that has ended was not settled')
    const name = this.#programs.nameOf(number)
    const isCommitting = name === 'commit' || name === 'shared'
    return answers(world, standing.ask, this.#faults, isCommitting).map(({ label, world: after, answer }) => ({
      label,
      state: withActor(after, { ...actor, running: this.#programs.answer(number, answer) }),
    }))
  }

  /** Runs a program over what only its own host sees, and takes what it ended with. */
  async #settle(world: World, index: number): Promise<World> {
    for (;;) {
      const actor = world.actors[index]
      if (actor?.running === undefined) return world
      const standing = await this.#programs.standing(actor.running)
      if ('ask' in standing) {
        const answered = ofOwnDisk(world, actor, standing.ask)
        if (answered === undefined) return world
        const running = this.#programs.answer(actor.running, { ok: answered.ok })
        world = withActor(world, { ...answered.actor, running })
        continue
      }
      const { running: _, ...rest } = actor
      const name = this.#programs.nameOf(actor.running)
      if ('done' in standing) return done(world, rest, name, standing.done)
      return threw(world, rest, name, standing.threw)
    }
  }
}

/** Answers what the actor's own host knows, at once: nothing can come between. */
function ofOwnDisk(world: World, actor: Actor, { call, args }: Ask): { actor: Actor; ok: unknown } | undefined {
  const [arg] = args
  const { disk } = actor
  switch (call) {
    case 'hint':
      return { actor, ok: null }
    case 'flush':
      return world.faults === 0 ? { actor, ok: null } : undefined
    case 'index':
      return { actor, ok: world.commits[(arg as CommitId).generation - 1]?.commit ?? null }
    case 'tree':
      return { actor, ok: disk?.tree }
    case 'note':
      return { actor: disk === null ? actor : noted(actor, disk, arg as CommitId), ok: null }
    case 'place': {
      const { turns, value, blob, generation, digest } = arg as Commit
      return {
        actor: { ...actor, disk: { tree: { turns, value, blob }, record: recordOf('', { generation, digest }) } },
        ok: null,
      }
    }
    case 'renew':
      return { actor: { ...actor, disk: newDisk() }, ok: null }
    case 'drop packs':
      return { actor: withoutBlob(actor), ok: null }
    case 'forget':
      return {
        actor: disk === null ? actor : { ...actor, disk: { ...disk, record: recordOf('', undefined) } },
        ok: null,
      }
    default:
      return undefined
  }
}

function newDisk(): Disk {
  return { tree: { turns: 0, value: '', blob: '' }, record: recordOf('', undefined) }
}

function noted(actor: Actor, disk: Disk, attempt: CommitId): Actor {
  return { ...actor, disk: { ...disk, record: withLine(disk.record, { attempt }) } }
}

/** The packs of its record are given up; what a commit names stays. */
function withoutBlob(actor: Actor): Actor {
  if (actor.disk?.uploaded === undefined) return actor
  const { uploaded: _, ...disk } = actor.disk
  return { ...actor, disk: { ...disk, tree: { ...disk.tree, blob: '' } } }
}

/** What an actor can begin while it does nothing. */
function idleSteps(programs: Programs, world: World, actor: Actor): Step<World>[] {
  const tool = TOOLS[actor.role]
  if (tool !== undefined) return begin(programs, world, actor, 'run', tool, { seed: actor.seed })
  const { disk, power, line } = actor
  if (power === 'off') return boots(programs, world, actor)
  if (power !== 'on' || disk === null) return []
  const steps: Step<World>[] = []
  const commits = (at: World, who: Actor, move: Move, blob: boolean): Step<World>[] => {
    if (who.disk === null) return []
    const input: CommitInput = {
      line: line ?? null,
      record: who.role === 'shared' ? who.disk.record : (who.unjudged ?? null),
      tree: who.disk.tree,
      seed: who.seed,
      bootId: '',
      blob,
    }
    return begin(programs, at, who, move, who.role === 'shared' ? 'shared' : 'commit', input)
  }
  // A turn gets a bit of its own. What it writes comes back every second turn, so that older commits hold the same.
  const bit = 1 << world.turns
  const turned = {
    ...actor,
    disk: { ...disk, tree: { ...disk.tree, turns: disk.tree.turns | bit, value: world.turns % 2 === 0 ? 'a' : 'b' } },
  }
  for (const blob of disk.tree.blob === '' ? [false] : [false, true]) {
    steps.push(...commits({ ...world, turns: world.turns + 1 }, turned, 'turn', blob))
    if (line?.unresolved !== undefined || blob) steps.push(...commits(world, actor, 'retry', blob))
  }
  if (line?.parent !== undefined && actor.lost !== true)
    steps.push(...uploads(programs, world, actor, line.parent.generation + 1))
  return steps
}

function uploads(programs: Programs, world: World, actor: Actor, number: number): Step<World>[] {
  const file = `${String(number).padStart(20, '0')}-${String(world.uploads).padStart(16, '0')}-0`
  return begin(programs, { ...world, uploads: world.uploads + 1 }, actor, 'upload', 'upload', { file })
}

function boots(programs: Programs, world: World, actor: Actor): Step<World>[] {
  const { disk } = actor
  const input = (claim: 'boot' | 'first-commit', create: boolean): BootInput => ({
    policy: { claim, create, acceptEmpty: false },
    record: disk?.record ?? null,
    seed: actor.seed,
  })
  const on: Actor = { ...actor, power: 'on' }
  const steps = [
    ...begin(programs, world, on, 'boot', 'boot', input('boot', false)),
    ...begin(programs, world, on, 'create', 'boot', input('boot', true)),
    ...begin(programs, world, on, 'lazy-boot', 'boot', input('first-commit', false)),
  ]
  if (disk !== null && may(actor, 'boot-down')) {
    steps.push({
      label: 'boots with the store down',
      state: withActor(world, spent({ ...on, unjudged: disk.record }, 'boot-down')),
    })
  }
  return steps
}

/** What happens to a host from outside, whatever it is doing. */
function outsideSteps(world: World, actor: Actor, { recordBesideTree = false }: Mutation): Step<World>[] {
  const { disk, copy, power } = actor
  const steps: Step<World>[] = []
  if (power === 'on' && may(actor, 'crash'))
    steps.push({ label: 'crashes', state: withActor(world, off(spent(actor, 'crash'))) })
  if (disk !== null && may(actor, 'copy')) {
    steps.push({ label: 'its disk is copied', state: withActor(world, { ...spent(actor, 'copy'), copy: disk }) })
  }
  if (power === 'off' && copy !== undefined && may(actor, 'roll-back')) {
    const back = recordBesideTree && disk !== null ? { ...copy, record: disk.record } : copy
    steps.push({
      label: 'its disk is rolled back',
      state: withActor(world, { ...spent(actor, 'roll-back'), disk: back }),
    })
  }
  const clone = world.actors.find((each) => each.power === 'unborn' && each.seed === actor.seed)
  if (clone !== undefined && power === 'on' && may(actor, 'clone')) {
    const { left, name } = clone
    steps.push({
      label: 'is cloned',
      state: withActor(withActor(world, spent(actor, 'clone')), { ...actor, name, left }),
    })
  }
  return steps
}

function off(actor: Actor): Actor {
  const { line: _line, running: _running, unjudged: _unjudged, lost: _lost, ...rest } = actor
  return { ...rest, power: 'off' }
}

function begin(
  programs: Programs,
  world: World,
  actor: Actor,
  move: Move,
  name: string,
  input: unknown,
): Step<World>[] {
  if (!may(actor, move)) return []
  const running = programs.begin(name, input)
  return [{ label: `begins ${move}`, state: withActor(world, { ...spent(actor, move), running }) }]
}

function may(actor: Actor, move: Move): boolean {
  return (actor.left[move] ?? 0) > 0
}

function spent(actor: Actor, move: Move): Actor {
  return { ...actor, left: { ...actor.left, [move]: (actor.left[move] ?? 0) - 1 } }
}

function withActor(world: World, actor: Actor): World {
  return { ...world, actors: world.actors.map((each) => (each.name === actor.name ? actor : each)) }
}

/** Takes what a program ended with. */
function done(world: World, actor: Actor, name: string, result: unknown): World {
  if (name === 'boot') return withActor(world, booted(actor, result as Boot<Commit>))
  if (name === 'commit' || name === 'shared') return committed(world, actor, result as CommitDone)
  if (name === 'upload' && actor.disk !== null) {
    const { tree, record } = actor.disk
    const uploaded = result as string
    return withActor(world, { ...actor, disk: { tree: { ...tree, blob: uploaded }, record, uploaded } })
  }
  if (name === 'read' && result !== null) {
    // It may be any commit; its content can't be mixed, for it is one object in this model.
    const { generation, digest } = result as Commit
    const isCommit = world.commits[generation - 1]?.commit.digest === digest
    return isCommit ? withActor(world, actor) : { ...world, wrong: 'a reader got what was never committed' }
  }
  return withActor(world, actor)
}

function threw(world: World, actor: Actor, name: string, code: string): World {
  // Nothing is ever damaged in this model.
  if (code === 'CORRUPT') return { ...world, wrong: `${name} calls the store damaged` }
  return withActor(world, name === 'boot' ? off(actor) : actor)
}

function booted(actor: Actor, boot: Boot<Commit>): Actor {
  if (boot.is !== 'serving') return off(actor)
  return { ...withCommitted(actor, boot.line.unresolved === undefined ? boot.line.parent : undefined), line: boot.line }
}

function committed(world: World, actor: Actor, { is, line, acked, dropsPacks }: CommitDone): World {
  const { unjudged: _, ...judged } = actor
  const after = line === null ? actor : { ...(dropsPacks ? withoutBlob(judged) : judged), line }
  const isShared = actor.role === 'shared'
  const next: Actor =
    is === 'committed' ? withCommitted(after, line?.parent) : { ...after, ...(is === 'lost' ? { lost: true } : {}) }
  if (actor.lost === true && (acked & ~world.acked) !== 0) return { ...world, wrong: 'a lost writer promised a turn' }
  if (isShared) delete next.line
  return withActor({ ...world, acked: world.acked | acked }, next)
}

function withCommitted(actor: Actor, commit: CommitId | undefined): Actor {
  const { disk } = actor
  if (disk === null || commit === undefined) return actor
  const { generation, digest } = commit
  const { uploaded, ...rest } = disk
  const isNamed = (commit as Partial<Commit>).blob === uploaded
  const kept = uploaded === undefined || isNamed ? rest : disk
  return { ...actor, disk: { ...kept, record: withLine(disk.record, { committed: { generation, digest } }) } }
}
