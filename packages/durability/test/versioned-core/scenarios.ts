import { recordOf } from '../../src/versioned/core/session-record.ts'
import { type Actor, type Commit, commitOf, type Disk, type World } from './model.ts'

/** How far an exploration goes. */
export interface Bounds {
  /** Calls that go wrong. */
  faults: number
  /** Turns that each writer makes. */
  turns: number
}

type Left = Actor['left']

/** The worlds that are explored, by what they are about. */
export const SCENARIOS: Readonly<Record<string, (bounds: Bounds) => World>> = {
  'two hosts take a session from each other': ({ faults, turns }) =>
    worldOf({ faults, commits: 1 }, [
      writer('A', { on: 1, left: { turn: turns, crash: 1, boot: 1, retry: 1 } }),
      writer('B', { left: { boot: 1, turn: turns, retry: 1 } }),
    ]),
  'hosts that claim with their first turn': ({ faults, turns }) =>
    worldOf({ faults, commits: 1 }, [
      writer('A', { warm: 1, left: { 'lazy-boot': 2, turn: turns, crash: 1, retry: 1 } }),
      writer('B', { left: { 'lazy-boot': 1, turn: turns, retry: 1 } }),
    ]),
  'a host that boots while the store is down': ({ faults, turns }) =>
    worldOf({ faults, commits: 1 }, [
      writer('A', { warm: 1, left: { 'boot-down': 1, boot: 1, turn: turns, crash: 1, retry: 1 } }),
      writer('B', { left: { boot: 1, turn: turns } }),
    ]),
  'two hosts create one session': ({ faults }) =>
    worldOf({ faults, commits: 0 }, [
      writer('A', { left: { boot: 2, turn: 1, crash: 1, retry: 1 } }),
      writer('B', { left: { boot: 1, turn: 1, retry: 1 } }),
    ]),
  'a machine is cloned': ({ faults, turns }) =>
    worldOf({ faults, commits: 1 }, [
      writer('A', { on: 1, left: { turn: turns, clone: 1, retry: 1, crash: 1, boot: 1 } }),
      { ...writer('A2', { left: { turn: turns, retry: 1, crash: 1, boot: 1 } }), seed: 'A', power: 'unborn' },
    ]),
  'a disk is rolled back': ({ faults, turns }) =>
    worldOf({ faults, commits: 1 }, [
      writer('A', { on: 1, left: { turn: turns, copy: 1, crash: 1, 'roll-back': 1, boot: 1, retry: 1 } }),
      writer('B', { left: { boot: 1, turn: 1 } }),
    ]),
  'two reclaimers, one of them late': ({ faults }) =>
    worldOf({ faults, commits: 3 }, [
      writer('B', { left: { boot: 1, turn: 2 } }),
      tool('R1', 'reclaimer'),
      tool('R2', 'reclaimer'),
    ]),
  'a reader that a reclaimer overtakes': ({ faults }) =>
    worldOf({ faults, commits: 3 }, [
      writer('B', { left: { boot: 1, turn: 3 } }),
      tool('R1', 'reclaimer'),
      tool('reader', 'reader'),
    ]),
  'a writer whose number is reclaimed before it asks again': ({ faults }) =>
    worldOf({ faults: Math.max(faults, 1), commits: 2 }, [
      writer('A', { on: 2, left: { turn: 1, retry: 1 } }),
      writer('B', { on: 2, left: { turn: 4 } }),
      tool('R1', 'reclaimer'),
    ]),
  'packs that are named late': ({ faults, turns }) =>
    worldOf({ faults, commits: 2 }, [
      writer('A', { on: 2, left: { upload: 1, turn: 2 + turns } }),
      tool('R1', 'reclaimer'),
    ]),
  'packs that another host claims over': ({ faults }) =>
    worldOf({ faults, commits: 2 }, [
      writer('A', { on: 2, left: { upload: 1, turn: 1, crash: 1, 'lazy-boot': 1 } }),
      tool('G', 'claiming-reclaimer'),
    ]),
  'a session is removed under its writer, and created again': ({ faults }) =>
    worldOf({ faults, commits: 2 }, [
      writer('A', { on: 2, left: { turn: 1, crash: 1, boot: 1 } }),
      writer('B', { left: { create: 1 } }),
      tool('rm', 'remover'),
    ]),
  'a reader of a session that is removed and created again': ({ faults }) =>
    worldOf({ faults, commits: 2 }, [
      writer('B', { left: { create: 1, turn: 1 } }),
      tool('rm', 'remover'),
      tool('reader', 'reader'),
    ]),
  'a zombie uploads for a session that was removed': ({ faults }) =>
    worldOf({ faults, commits: 1 }, [
      writer('A', { on: 1, left: { upload: 1, turn: 1, crash: 1, create: 1, retry: 1 } }),
      tool('rm', 'remover', 2),
    ]),
  'two hosts share one root': ({ faults, turns }) =>
    worldOf({ faults, commits: 1 }, [
      { ...writer('A', { on: 1, left: { turn: turns } }), role: 'shared' },
      { ...writer('B', { on: 1, left: { turn: turns } }), role: 'shared' },
    ]),
}

function worldOf({ faults, commits }: { faults: number; commits: number }, actors: Actor[]): World {
  return {
    commits: historyOf(commits).map((commit) => ({ commit, isTombstone: false })),
    packs: [],
    late: [],
    actors,
    acked: (1 << commits) - 1,
    turns: commits,
    uploads: 0,
    faults,
  }
}

/** Commits of one turn each, in the past. */
function historyOf(commits: number): Commit[] {
  const history: Commit[] = []
  for (let generation = 1; generation <= commits; generation++) {
    const parent = history.at(-1)
    history.push(
      commitOf({
        generation,
        ...(parent === undefined ? {} : { parent: { generation: parent.generation, digest: parent.digest } }),
        kind: 'turn',
        nonce: `past${generation}`,
        turns: (1 << generation) - 1,
        value: generation % 2 === 1 ? 'a' : 'b',
        blob: '',
        where: `c${generation}`,
      }),
    )
  }
  return history
}

/** @param on serves already, on this generation; @param warm has the tree of this generation */
function writer(name: string, { on, warm = on, left }: { on?: number; warm?: number | undefined; left: Left }): Actor {
  const held = warm === undefined ? undefined : historyOf(warm).at(-1)
  const actor: Actor = {
    name,
    role: 'writer',
    seed: name,
    power: on === undefined ? 'off' : 'on',
    disk: diskOf(held),
    left,
  }
  return on === undefined || held === undefined ? actor : { ...actor, line: { parent: held, earlier: [] } }
}

function diskOf(held: Commit | undefined): Disk | null {
  if (held === undefined) return null
  const { turns, value, blob, generation, digest } = held
  return { tree: { turns, value, blob }, record: recordOf('', { generation, digest }) }
}

function tool(name: string, role: Actor['role'], runs = 1): Actor {
  return { name, role, seed: name, power: 'on', disk: null, left: { run: runs } }
}
