import assert from 'node:assert/strict'
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Capability } from '@nexus/objectstore-memory-test'
import { resumeOnEmptyHost, work, type FaultRun, type Resumed, type Tree } from './fault-points.ts'
import { storedText, until } from './memory-store.ts'
import { TestHost } from './test-host.ts'

/** Longest a run may take by its own clock: a deadline or two, and the bounds of an end. */
const BOUND_MS = 300_000

/** What was met, counted over all runs. */
export interface Visited {
  points: number
  mixed: number
  died: number
  failedBoots: number
  failedStops: number
}

/** What every run started from: a session with one committed turn. */
export interface Seed {
  tree: Tree
  generation: number
}

/** Demands that an empty host gets exactly the last committed turn, and a warm one goes on. */
export async function judge(run: FaultRun, seed: Seed, absent: readonly Capability[], visited: Visited): Promise<void> {
  await judgeTime(run)
  if (run.bootError !== undefined) {
    visited.failedBoots += 1
    assertNoTree(run.host)
  }
  if (run.stopError !== undefined) visited.failedStops += 1
  judgeMarker(run)
  const resumed = await resumeOnEmptyHost(run.backend, absent)
  const generation = judgeCommitted(run, resumed, seed, absent)
  if ((resumed.result.mixed?.paths.length ?? 0) > 0) visited.mixed += 1
  if (storedItsEnd(run)) judgeEnd(run, resumed, generation)
  if (!run.died) return
  visited.died += 1
  await judgeWarmHost(run, absent)
}

/** Before the first commit there is nothing to lose: what was stored of it is no session for others. */
export async function judgeFirst(run: FaultRun): Promise<void> {
  await judgeTime(run)
  const { backend, acknowledged, lastTree } = run
  const { result, tree } = await resumeOnEmptyHost(backend, [])
  const { outcome, committed: manifest, mixed } = result
  if (acknowledged > 0) assert.equal(outcome, 'hydrated')
  if (outcome === 'hydrated') {
    const generation = manifest?.generation ?? 0
    assert.ok(generation >= acknowledged, `generation ${generation} is older than the acknowledged ${acknowledged}`)
    assert.deepEqual(tree, expectedTree(run.trees.get(generation) ?? lastTree, lastTree, mixed?.paths))
  } else {
    assert.equal(outcome, 'never-seen')
  }
  if (run.died) await judgeWarmHost(run, [])
}

async function judgeTime({ host, elapsedMs }: FaultRun): Promise<void> {
  assert.ok(elapsedMs < BOUND_MS, `it took ${elapsedMs} ms of its clock`)
  await until(() => host.clock.pendingTimers === 0, 'the end of all timers')
}

/** The marker never names a generation that isn't committed. */
function judgeMarker({ backend }: FaultRun): void {
  const generationOf = (key: string): number => {
    const text = storedText(backend, key)
    return text === undefined ? 0 : (JSON.parse(text) as { generation: number }).generation
  }
  const [marker, manifest] = ['sessions/s1.snapshot.json', 'sessions/s1.manifest/manifest.json'].map(generationOf)
  assert.ok((marker ?? 0) <= (manifest ?? 0), `the marker is at ${marker}, the manifest at ${manifest}`)
}

/** A hydration that failed leaves nothing at the session's path, and no staging. */
function assertNoTree({ dir, disk }: TestHost): void {
  assert.ok(!existsSync(dir))
  const sessions = join(disk, 'sessions')
  const left = existsSync(sessions) ? readdirSync(sessions).filter((name) => name.startsWith('.hydrating')) : []
  assert.deepEqual(left, [])
}

/** The committed generation is whole, no older than what was acknowledged, and what was overwritten in place is named. */
function judgeCommitted(run: FaultRun, resumed: Resumed, seed: Seed, absent: readonly Capability[]): number {
  const { committed: manifest, mixed, outcome } = resumed.result
  const generation = manifest?.generation ?? 0
  const oldest = Math.max(seed.generation, run.acknowledged)
  assert.equal(outcome, 'hydrated')
  assert.ok(generation >= oldest, `generation ${generation} is older than the acknowledged ${oldest}`)
  const committed = generation === seed.generation ? seed.tree : (run.trees.get(generation) ?? run.lastTree)
  const expected = expectedTree(committed, run.lastTree, mixed?.paths)
  assert.deepEqual(withoutStrayBlobs(resumed.tree, expected, absent), expected)
  const overwritten = new Set(mixed?.paths)
  const turns = turnsOf(committed)
  if (!overwritten.has('plugins/nexus.memory/store.db')) assert.deepEqual(resumed.rows, turns)
  if (!overwritten.has('journal/events.jsonl')) {
    assert.equal(resumed.lastSeq, manifest?.journal.last_seq)
    assert.equal(resumed.types.filter((type) => type === 'agent.turn.end').length, turns.length)
  }
  return generation
}

/** The known boundary of the mirror layout: a file that an interrupted snapshot overwrote has that snapshot's bytes. */
function expectedTree(committed: Tree, interrupted: Tree, overwritten: readonly string[] = []): Tree {
  const expected = { ...committed }
  for (const path of overwritten) {
    if (path in committed) expected[path] = interrupted[path] ?? 'gone'
  }
  return expected
}

function storedItsEnd({ died, bootError, stopError, host }: FaultRun): boolean {
  const last = host.seen('session.snapshot.result').at(-1)
  return (
    !died &&
    bootError === undefined &&
    stopError === undefined &&
    last?.['trigger'] === 'shutdown' &&
    last['ok'] === true
  )
}

/** A run that stored its end has stored all of it, whatever happened on the way. */
function judgeEnd(run: FaultRun, resumed: Resumed, generation: number): void {
  assert.equal(generation, run.acknowledged)
  assert.equal(resumed.result.mixed, undefined)
  assert.deepEqual(resumed.tree, run.lastTree)
}

/** The same disk again, as after a crash: its tree is the live one, and the next turn is stored. */
async function judgeWarmHost({ host, backend, lastTree }: FaultRun, absent: readonly Capability[]): Promise<void> {
  const again = await TestHost.boot({ disk: host.disk, backend, absent })
  assert.deepEqual(again.seen('session.local.stale'), [])
  if (Object.keys(lastTree).length > 0) assert.notEqual(again.resolution?.tree, 'absent')
  await again.turn('t9', () => work(again, 't9'))
  assert.deepEqual(
    again.seen('session.snapshot.result').map(({ ok }) => ok),
    [true],
  )
  assert.deepEqual(again.seen('session.owner.lost'), [])
  await again.kill()
  const resumed = await resumeOnEmptyHost(backend, absent)
  assert.equal(resumed.result.mixed, undefined)
  assert.ok(resumed.rows.includes('t9'))
}

/** Without `get` the whole prefix is fetched, and blobs are never pruned. */
function withoutStrayBlobs(tree: Tree, expected: Tree, absent: readonly Capability[]): Tree {
  if (!absent.includes('get')) return tree
  return Object.fromEntries(Object.entries(tree).filter(([path]) => path in expected || !path.startsWith('blobs/')))
}

function turnsOf(tree: Tree): string[] {
  return Object.keys(tree)
    .map((path) => /^files\/(t\d+)\.txt$/.exec(path)?.[1])
    .filter((turn) => turn !== undefined)
    .toSorted()
}
