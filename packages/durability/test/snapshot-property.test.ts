import { createHash } from 'node:crypto'
import {
  appendFileSync,
  chmodSync,
  lstatSync,
  mkdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { withoutCapabilities } from '@nexus/objectstore-memory-test'
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { parseManifest } from '../src/mirror/manifest/parse.ts'
import { SnapshotMemory } from '../src/capture/memory.ts'
import { describeTree, Lab, SESSION, storeOf, TREE_KEY, type Host } from './durability-fixture.ts'

// More of them, and a longer limit, for whoever has just changed something: NEXUS_PROPERTY_RUNS=2000.
const RUNS = Number(process.env['NEXUS_PROPERTY_RUNS'] ?? 50)

/** One thing that somebody does to a session tree. What can't be done is left undone. */
type Deed =
  | { do: 'write'; path: string; content: string; mode: number; seconds: number }
  | { do: 'append'; path: string; content: string }
  | { do: 'mkdir'; path: string; mode: number }
  | { do: 'link'; path: string; target: string }
  | { do: 'remove'; path: string }
  | { do: 'rename'; path: string; to: string }
  | { do: 'blob'; content: string }
  | { do: 'segment'; number: number; content: string }

const name = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom('a', 'b', 'c', 'A', 'x.txt', 'notes-journal', 'notes') },
  {
    weight: 2,
    arbitrary: fc.constantFrom(
      'a..b',
      '..c',
      '__proto__',
      'é',
      'e\u0301',
      'a b',
      'a%2Bb',
      'a\nb',
      '\u{1F600}',
      '\uFFFD',
      '-wal',
    ),
  },
  { weight: 1, arbitrary: fc.constantFrom('back\\slash', 'n'.repeat(255)) },
)
const path = fc.array(name, { minLength: 1, maxLength: 3 }).map((names) => `files/${names.join('/')}`)
const content = fc.string({ maxLength: 40 })
const mode = fc.constantFrom(0o600, 0o644, 0o755, 0o400, 0o000, 0o777)
const deed: fc.Arbitrary<Deed> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constant('write' as const),
      path,
      content,
      mode,
      seconds: fc.integer({ min: 1, max: 2_000_000_000 }),
    }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('append' as const), path, content }) },
  {
    weight: 1,
    arbitrary: fc.record({ do: fc.constant('mkdir' as const), path, mode: fc.constantFrom(0o700, 0o755, 0o500) }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('link' as const),
      path,
      target: fc.constantFrom('a', '..', '/etc/passwd', 'no/where'),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('remove' as const), path }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('rename' as const), path, to: path }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('blob' as const), content }) },
  {
    weight: 1,
    arbitrary: fc.record({ do: fc.constant('segment' as const), number: fc.integer({ min: 1, max: 3 }), content }),
  },
)

function perform(host: Host, step: Deed): void {
  try {
    performUnchecked(host, step)
  } catch {
    // A file where a directory would have to be, or the other way round.
  }
}

function performUnchecked(host: Host, step: Deed): void {
  if (step.do === 'blob') {
    const sha = createHash('sha256').update(step.content).digest('hex')
    const base = join(host.dir, 'blobs', sha.slice(0, 2), sha)
    put(`${base}.bin`, step.content)
    put(`${base}.meta`, `text/plain\n${step.content.length}\n`)
    return
  }
  if (step.do === 'segment') {
    put(join(host.dir, 'journal', `events-00${step.number}.jsonl.zst`), step.content)
    return
  }
  const at = join(host.dir, step.path)
  mkdirSync(dirname(at), { recursive: true, mode: 0o700 })
  if (step.do === 'remove') rmSync(at, { recursive: true, force: true })
  else if (step.do === 'rename') renameSync(at, join(host.dir, step.to))
  else if (step.do === 'link') symlinkSync(step.target, at)
  else if (step.do === 'mkdir') {
    mkdirSync(at)
    chmodSync(at, step.mode)
  } else if (lstatSync(at, { throwIfNoEntry: false })?.isSymbolicLink() === true) rmSync(at)
  else if (step.do === 'append') appendFileSync(at, step.content, { mode: 0o600 })
  else {
    writeFileSync(at, step.content)
    chmodSync(at, step.mode)
    utimesSync(at, step.seconds, step.seconds)
  }
}

function put(at: string, text: string): void {
  mkdirSync(dirname(at), { recursive: true, mode: 0o700 })
  writeFileSync(at, text, { mode: 0o600 })
}

/** What of a tree can be stored: a name with a backslash can't. */
function storable(tree: Record<string, string>): Record<string, string> {
  return Object.fromEntries(Object.entries(tree).filter(([at]) => !at.includes('\\')))
}

/** A tree as the store should give it back: a directory of nothing but unstorable things is an empty one. */
function expectSame(got: Record<string, string>, wanted: Record<string, string>, mixed: readonly string[] = []): void {
  const blank = (tree: Record<string, string>): Record<string, string> =>
    Object.fromEntries(
      Object.entries(tree).map(([at, what]) => [
        at,
        mixed.includes(at) ? what.replace(/ [0-9a-f]{12}$/, ' mixed') : what,
      ]),
    )
  expect(blank(got)).toEqual(blank(storable(wanted)))
}

describe('any tree', () => {
  it('comes back from a snapshot as it was, with every capability and with none', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(deed, { maxLength: 25 }), fc.boolean(), async (deeds, hasGet) => {
        const lab = new Lab()
        try {
          const a = lab.host()
          for (const step of deeds) perform(a, step)
          const { unstored, committed: manifest } = await lab.snapshot(a)
          const b = lab.host({ empty: true })
          const store = hasGet ? lab.store : storeOf(withoutCapabilities(lab.backend, ['get']))
          const result = await lab.hydrate(b, { store, onMixed: 'fail' })
          expect(result.outcome).toBe('hydrated')
          expectSame(describeTree(b.dir), describeTree(a.dir))
          expect(unstored.every((at) => at.includes('\\'))).toBe(true)
          // And once more from there: what was restored is stored as the same.
          lab.committed = manifest
          const again = await lab.snapshot(b)
          expect(again.committed.objects).toEqual(manifest.objects)
          expect(again.committed.links).toEqual(manifest.links)
          expect(again.committed.dirs).toEqual(manifest.dirs)
        } finally {
          await lab.remove()
        }
      }),
      { numRuns: RUNS },
    )
  })
})

type Fault = 'fails' | 'answer lost' | 'dies'

/** Turns of one session, each followed by a snapshot that something may happen to. */
class Story {
  readonly lab = new Lab()
  readonly #trees = new Map<number, Record<string, string>>()
  readonly #blobs = new Set<string>()
  host: Host = this.lab.host()
  memory = new SnapshotMemory()

  /** @returns whether the snapshot ended well */
  async turn(deeds: readonly Deed[], concurrency: number, fault?: { kind: Fault; nth: number }): Promise<boolean> {
    for (const step of deeds) perform(this.host, step)
    const { faults } = this.lab.backend
    const base = faults.calls.length
    if (fault !== undefined) {
      const at = base + fault.nth
      if (fault.kind === 'fails') faults.failNth(at)
      else if (fault.kind === 'answer lost') faults.applyThenFail(at)
      else faults.failWhen(({ index }) => index >= at)
    }
    const tree = describeTree(this.host.dir)
    this.#trees.set(this.lab.generation + 1, tree)
    for (const at of Object.keys(tree)) if (at.startsWith('blobs/')) this.#blobs.add(at)
    const ended = await this.lab.snapshot(this.host, { concurrency, memory: this.memory }).then(
      () => true,
      () => false,
    )
    faults.heal()
    // What the next snapshot reads at its beginning.
    const stored = this.lab.backend.objects.get(`${TREE_KEY}.manifest/manifest.json`)
    if (stored !== undefined) this.lab.committed = parseManifest(stored.bytes, SESSION)
    return ended
  }

  /** What an empty host finds: the newest generation whose manifest arrived, whole, or with the mixture named. */
  async check(): Promise<{ mixed: boolean; host: Host }> {
    const host = this.lab.host({ empty: true })
    const { committed } = this.lab
    const result = await this.lab.hydrate(host)
    if (committed === undefined) {
      if (result.committed !== undefined) throw new Error('nothing was committed, and a manifest was found')
      return { mixed: true, host }
    }
    if (result.committed?.nonce !== committed.nonce) throw new Error('another generation was restored')
    const wanted = { ...this.#trees.get(committed.generation) }
    const got = describeTree(host.dir)
    // Blobs that left this disk stay named: they may be there besides.
    for (const at of this.#blobs) {
      if (wanted[at] !== undefined || got[at] === undefined) continue
      delete got[at]
    }
    for (const at of ['blobs']) if (wanted[at] === undefined) delete got[at]
    expectSame(got, wanted, result.mixed?.paths)
    return { mixed: result.mixed !== undefined, host }
  }
}

describe('interrupted snapshots', () => {
  it('at any call, in any way, leave a committed generation whole or say what is mixed', async () => {
    const turn = fc.record({
      deeds: fc.array(deed, { minLength: 1, maxLength: 6 }),
      concurrency: fc.constantFrom(1, 4, 16),
      fault: fc.option(
        fc.record({
          kind: fc.constantFrom<Fault>('fails', 'answer lost', 'dies'),
          nth: fc.integer({ min: 1, max: 16 }),
        }),
        { nil: undefined },
      ),
      moves: fc.boolean(),
    })
    await fc.assert(
      fc.asyncProperty(fc.array(turn, { minLength: 1, maxLength: 6 }), async (turns) => {
        const story = new Story()
        try {
          for (const { deeds, concurrency, fault, moves } of turns) {
            const ended = await story.turn(deeds, concurrency, fault)
            const { mixed, host } = await story.check()
            expect(ended && mixed).toBe(false)
            if (moves && !mixed) {
              // Another machine takes over, without what this one remembered.
              story.host = host
              story.memory = new SnapshotMemory()
            }
          }
          // One snapshot that nothing happens to makes everything whole again.
          await story.turn([], 4)
          expect((await story.check()).mixed).toBe(false)
        } finally {
          await story.lab.remove()
        }
      }),
      { numRuns: RUNS },
    )
  })

  it('are visited at every call of one turn: only what was rewritten in place can be mixed', async () => {
    const first: Deed[] = [
      { do: 'write', path: 'files/rewritten', content: 'old content', mode: 0o644, seconds: 1e9 },
      { do: 'write', path: 'files/same', content: 'same', mode: 0o600, seconds: 1e9 },
      { do: 'write', path: 'files/deleted', content: 'deleted', mode: 0o600, seconds: 1e9 },
      { do: 'write', path: 'files/becomes', content: 'a directory', mode: 0o600, seconds: 1e9 },
      { do: 'append', path: 'files/log', content: 'turn 1\n' },
      { do: 'blob', content: 'first blob' },
      { do: 'segment', number: 1, content: 'sealed' },
    ]
    const second: Deed[] = [
      { do: 'write', path: 'files/rewritten', content: 'new', mode: 0o755, seconds: 2e9 },
      { do: 'remove', path: 'files/deleted' },
      { do: 'remove', path: 'files/becomes' },
      { do: 'write', path: 'files/becomes/below', content: 'x', mode: 0o600, seconds: 1e9 },
      { do: 'append', path: 'files/log', content: 'turn 2\n' },
      { do: 'blob', content: 'second blob' },
      { do: 'segment', number: 2, content: 'sealed too' },
    ]
    const begin = async (): Promise<Story> => {
      const story = new Story()
      await story.turn(first, 4)
      return story
    }
    const rehearsal = await begin()
    const before = rehearsal.lab.backend.faults.calls.length
    await rehearsal.turn(second, 4)
    const calls = rehearsal.lab.backend.faults.calls.length - before
    await rehearsal.lab.remove()
    expect(calls).toBeGreaterThan(10)
    for (const kind of ['fails', 'answer lost', 'dies'] as const) {
      for (let nth = 1; nth <= calls; nth++) {
        const story = await begin()
        try {
          expect(await story.turn(second, 4, { kind, nth })).toBe(false)
          const host = story.lab.host({ empty: true })
          const { mixed, committed: manifest } = await story.lab.hydrate(host)
          expect([1, 2]).toContain(manifest?.generation)
          expect(manifest?.generation === 2 ? [] : (mixed?.paths ?? [])).toEqual(
            mixed === undefined ? [] : ['files/rewritten'],
          )
          await story.check()
          expect(await story.turn([], 4)).toBe(true)
          expect((await story.check()).mixed).toBe(false)
        } finally {
          await story.lab.remove()
        }
      }
    }
  })
})
