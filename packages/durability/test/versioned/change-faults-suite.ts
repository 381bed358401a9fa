import { randomBytes } from 'node:crypto'
import { readSession } from '@nexus/independent-reader'
import { forEachBounded, ObjectStore } from '@nexus/objectstore'
import { createMemoryBackend, type MemoryBackend } from '@nexus/objectstore-memory-test'
import { describe, expect, it } from 'vitest'
import { HISTORY_FAILPOINTS } from '../../src/versioned/change/failpoints.ts'
import {
  type ChangeOptions,
  collectGarbage,
  forkSession,
  purgeHistory,
  removeSession,
} from '../../src/versioned/change/public.ts'
import { TOMBSTONE_BYTES } from '../../src/versioned/format/tombstone.ts'
import { bucketOf, SessionFixture } from './session-fixture.ts'

interface Seed {
  objects: MemoryBackend['objects']
  content: Record<string, string>
}

/** One large file that is never written again, one that changes, and packs that nothing names. */
async function seedOf(turns: number): Promise<Seed> {
  const session = new SessionFixture()
  session.write('files/large', randomBytes(1_200_000))
  for (let turn = 1; turn <= turns; turn++) {
    session.write('files/turn', `t${turn}`)
    await session.commit(turn === turns ? 'shutdown' : 'turn')
  }
  const { objects } = session.backend
  for (const number of [2, turns]) {
    const key = `sessions/s.v/packs/${String(number).padStart(20, '0')}-0123456789abcdef-0`
    objects.set(key, { bytes: Buffer.from('left over'), modTime: new Date() })
  }
  return { objects, content: (await contentOf(session.backend, 's')) ?? {} }
}

/** What a stranger's reader finds; undefined when the session was removed. */
async function contentOf(backend: MemoryBackend, id: string): Promise<Record<string, string> | undefined> {
  const session = await readSession(bucketOf(backend), id)
  if (session === undefined) return undefined
  return Object.fromEntries([...session.files].map(([path, { content }]) => [path, content.toString('base64')]))
}

function alive({ objects }: MemoryBackend): number {
  const commits = [...objects].filter(([key]) => key.startsWith('sessions/s.v/commits/'))
  return commits.filter(([, { bytes }]) => bytes.length !== TOMBSTONE_BYTES).length
}

function packs({ objects }: MemoryBackend): number {
  return [...objects.keys()].filter((key) => key.startsWith('sessions/s.v/packs/')).length
}

interface Change {
  name: string
  turns: number
  act: (store: ObjectStore, options: ChangeOptions, seed: Seed) => Promise<unknown>
  /** The session may be gone before it was done. */
  removes?: boolean
  /** Checked when it was done again after a fault; that the session holds what it held goes without saying. */
  after: (backend: MemoryBackend, seed: Seed) => Promise<void>
}

const KEEP = { generations: 2, days: 0, atMost: 2 }

const CHANGES: readonly Change[] = [
  {
    name: 'a purge',
    turns: 4,
    act: (store, options) => purgeHistory(store, 's', options),
    after: async (backend) => expect([alive(backend), packs(backend)]).toEqual([1, 1]),
  },
  {
    name: 'a removal',
    turns: 4,
    act: (store, options) => removeSession(store, 's', options),
    removes: true,
    after: async (backend) => {
      expect(await contentOf(backend, 's')).toBeUndefined()
      expect([alive(backend), packs(backend)]).toEqual([1, 0])
    },
  },
  {
    name: 'forgetting what was removed',
    turns: 4,
    act: async (store, options) => {
      await removeSession(store, 's', options).catch((error: unknown) => {
        if ((error as { code?: string }).code !== 'NOT_FOUND') throw error
      })
      await collectGarbage(store, { ...options, forgetRemovedMs: 0 })
    },
    removes: true,
    after: async (backend) => expect(await contentOf(backend, 's')).toBeUndefined(),
  },
  {
    name: 'a collection',
    turns: 80,
    act: (store, options) => collectGarbage(store, { ...options, keep: KEEP }),
    after: async (backend) => {
      expect(alive(backend)).toBeLessThan(80)
      expect(packs(backend)).toBe(3)
    },
  },
  {
    name: 'a collection behind a claim',
    turns: 4,
    act: (store, options) => collectGarbage(store, { ...options, claim: true }),
    after: async (backend) => expect(packs(backend)).toBe(1),
  },
  {
    name: 'a fork',
    turns: 4,
    act: async (store, options) => {
      await forkSession(store, 's', { ...options, as: 'f' }).catch((error: unknown) => {
        if ((error as { code?: string }).code !== 'PRECONDITION') throw error
      })
    },
    after: async (backend, { content }) => expect(await contentOf(backend, 'f')).toEqual(content),
  },
]

/**
 * Declares the tests that break what changes a session without running it: each of its calls, in every way, and a death at each
 * of its failpoints. Whatever happens, the committed bytes stay, and doing it again ends it.
 *
 * @param stride 1 breaks every call; n breaks each n-th
 */
export function describeChangeFaults(stride: number): void {
  const seeds = new Map<number, Seed>()

  describe.each(CHANGES)('$name', (change) => {
    const fresh = async (): Promise<{ backend: MemoryBackend; store: ObjectStore; seed: Seed }> => {
      const seed = seeds.get(change.turns) ?? (await seedOf(change.turns))
      seeds.set(change.turns, seed)
      const backend = createMemoryBackend()
      for (const [key, object] of seed.objects) backend.objects.set(key, object)
      return { backend, store: new ObjectStore(backend, { name: 'memory-test' }), seed }
    }

    it.each(['fails', 'loses its answer', 'is the last'] as const)(
      'keeps what is committed when a call %s, and is ended by doing it again',
      async (fault) => {
        const smooth = await fresh()
        await change.act(smooth.store, {}, smooth.seed)
        const calls = smooth.backend.faults.calls.length
        expect(calls).toBeGreaterThan(5)
        const chosen = Array.from({ length: calls }, (_, at) => at + 1).filter(
          (at) => at % stride === 0 || at === calls,
        )
        await forEachBounded(chosen, 4, async (at) => {
          const world = await fresh()
          const { faults } = world.backend
          const dying = new AbortController()
          if (fault === 'fails') faults.failNth(at)
          else if (fault === 'loses its answer') faults.applyThenFail(at)
          else {
            faults.hang(({ index }) => {
              if (index > at) dying.abort()
              return index > at
            })
          }
          const signal = fault === 'is the last' ? dying.signal : undefined
          await change.act(world.store, { signal }, world.seed).catch(() => undefined)
          faults.heal()
          await judge(change, world, `call ${at}`)
        })
      },
      60_000,
    )

    it('keeps what is committed when it dies at a failpoint, and is ended by doing it again', async () => {
      const passed: string[] = []
      const smooth = await fresh()
      await change.act(smooth.store, { failpoint: async (name) => void passed.push(name) }, smooth.seed)
      for (const name of new Set(passed)) {
        const world = await fresh()
        const failpoint = async (at: string): Promise<void> => {
          if (at === name) throw new Error('died')
        }
        await expect(change.act(world.store, { failpoint }, world.seed)).rejects.toThrow('died')
        await judge(change, world, name)
      }
      visited.push(...passed)
    }, 60_000)
  })

  const visited: string[] = []

  it('passes every failpoint there is', () => {
    // A migration has tests of its own.
    const here = HISTORY_FAILPOINTS.filter((name) => !name.startsWith('migrate:'))
    expect(here.filter((name) => !visited.includes(name))).toEqual([])
  })
}

async function judge(
  change: Change,
  { backend, store, seed }: { backend: MemoryBackend; store: ObjectStore; seed: Seed },
  where: string,
): Promise<void> {
  const held = await contentOf(backend, 's')
  const mayBeGone = change.removes === true
  expect([where, held ?? (mayBeGone ? seed.content : held)]).toEqual([where, seed.content])
  await change.act(store, {}, seed)
  expect(mayBeGone ? seed.content : await contentOf(backend, 's')).toEqual(seed.content)
  await change.after(backend, seed)
}
