import { readSession } from '@nexus/independent-reader'
import { forEachBounded } from '@nexus/objectstore'
import { createMemoryBackend, type MemoryBackend } from '@nexus/objectstore-memory-test'
import { describe, expect, it } from 'vitest'
import { MIGRATE_FAILPOINTS, type MigrateOptions, migrateSession } from '../../src/versioned/change/migrate-session.ts'
import { resumeOnEmptyHost, work } from '../fault-points.ts'
import type { LayoutName } from '../layout-of.ts'
import { newStore } from '../memory-store.ts'
import { TestHost } from '../test-host.ts'
import { bucketOf } from './session-fixture.ts'

const MANIFEST = 'sessions/s1.manifest/manifest.json'

/** A session of two turns, with everything that a turn leaves, whose run has ended. */
async function ended(layoutName: LayoutName): Promise<TestHost> {
  const host = await TestHost.boot({ layoutName })
  for (const turn of ['t1', 't2']) await host.turn(turn, () => work(host, turn))
  await host.stop()
  return host
}

async function migrate(
  backend: MemoryBackend,
  to: LayoutName,
  options: Partial<MigrateOptions> = {},
): ReturnType<typeof migrateSession> {
  const { store } = newStore({ of: backend })
  return await migrateSession(store, 's1', { force: true, settleMs: 0, ...options, to })
}

const there = { versioned: 'mirror', mirror: 'versioned' } as const

describe('a session of the mirror layout', () => {
  it('goes on in the versioned one, whole, and nobody goes on in the mirror', async () => {
    const host = await ended('mirror')
    const before = await resumeOnEmptyHost(host.backend, [])
    expect(await migrate(host.backend, 'versioned')).toMatchObject({ generation: 1, wasThere: false })
    const after = await resumeOnEmptyHost(host.backend, [], 'versioned')
    expect([after.tree, after.rows, after.types]).toEqual([before.tree, before.rows, before.types])
    expect(after.lastSeq).toBe(before.lastSeq)
    expect((await readSession(bucketOf(host.backend), 's1'))?.files.size).toBeGreaterThan(4)
    await expect(resumeOnEmptyHost(host.backend, [])).rejects.toMatchObject({
      code: 'UNSUPPORTED',
      message: expect.stringContaining('versioned layout') as string,
    })
    expect(await migrate(host.backend, 'versioned')).toMatchObject({ generation: 1, wasThere: true })
    const next = await TestHost.boot({ layoutName: 'versioned', backend: host.backend })
    await next.turn('t3', () => work(next, 't3'))
    await next.stop()
    expect((await resumeOnEmptyHost(host.backend, [], 'versioned')).rows).toEqual(['t1', 't2', 't3'])
  })

  it('is not stored by a mirror writer that slept', async () => {
    const host = await TestHost.boot({ layoutName: 'mirror' })
    await host.turn('t1', () => work(host, 't1'))
    await migrate(host.backend, 'versioned')
    const moved = host.backend.objects.get(MANIFEST)?.bytes
    await host.turn('t2', () => work(host, 't2'))
    expect(host.backend.objects.get(MANIFEST)?.bytes).toEqual(moved)
    await host.kill()
    expect((await resumeOnEmptyHost(host.backend, [], 'versioned')).rows).toEqual(['t1'])
  })

  it('is not opened in the mirror while a migration is half done, nor after it', async () => {
    const host = await ended('mirror')
    const failpoint = async (at: string): Promise<void> => {
      if (at === 'migrate:committed') throw new Error('died')
    }
    await expect(migrate(host.backend, 'versioned', { failpoint })).rejects.toThrow('died')
    const refused = { code: 'PRECONDITION', message: expect.stringContaining('store migrate s1 --to mirror') as string }
    await expect(TestHost.boot({ layoutName: 'mirror', backend: host.backend })).rejects.toMatchObject(refused)
    const half = await migrate(host.backend, 'mirror')
    expect(half).toMatchObject({ wasThere: false })
    const mirrored = await TestHost.boot({ layoutName: 'mirror', backend: host.backend })
    await mirrored.stop()
  })

  it('is refused while its owner looks live', async () => {
    const host = await TestHost.boot({ layoutName: 'mirror' })
    await host.turn('t1')
    const { store } = newStore({ of: host.backend, clock: host.clock })
    const options = { to: 'versioned' as const, clock: host.clock }
    await expect(migrateSession(store, 's1', options)).rejects.toMatchObject({ code: 'LOCKED' })
    await host.kill()
  })
})

describe('a versioned session', () => {
  it('goes back to the mirror, and from there again behind its chain', async () => {
    const host = await ended('versioned')
    const before = await resumeOnEmptyHost(host.backend, [], 'versioned')
    expect(await migrate(host.backend, 'mirror')).toMatchObject({ to: 'mirror', wasThere: false })
    const after = await resumeOnEmptyHost(host.backend, [])
    expect([after.tree, after.rows, after.types]).toEqual([before.tree, before.rows, before.types])
    await expect(TestHost.boot({ layoutName: 'versioned', backend: host.backend })).rejects.toMatchObject({
      code: 'PRECONDITION',
    })
    const mirrored = await TestHost.boot({ layoutName: 'mirror', backend: host.backend })
    await mirrored.turn('t3', () => work(mirrored, 't3'))
    await mirrored.stop()
    const chain = [...host.backend.objects.keys()].filter((key) => key.startsWith('sessions/s1.v/commits/')).length
    expect(await migrate(host.backend, 'versioned')).toMatchObject({ generation: chain + 1, wasThere: false })
    expect((await resumeOnEmptyHost(host.backend, [], 'versioned')).rows).toEqual(['t1', 't2', 't3'])
  })
})

describe.each(['versioned', 'mirror'] as const)('a migration to the %s layout', (to) => {
  const from = there[to]
  let seed: Promise<TestHost> | undefined
  const fresh = async (): Promise<MemoryBackend> => {
    const host = await (seed ??= ended(from))
    const backend = createMemoryBackend()
    for (const [key, object] of host.backend.objects) backend.objects.set(key, object)
    return backend
  }

  async function judge(backend: MemoryBackend): Promise<void> {
    const { rows, tree } = await resumeOnEmptyHost(await fresh(), [], from)
    const [old, now] = await Promise.allSettled([
      resumeOnEmptyHost(backend, [], from),
      resumeOnEmptyHost(backend, [], to),
    ])
    const held = [old, now].flatMap((each) =>
      each.status === 'fulfilled' && each.value.rows.length > 0 ? each.value : [],
    )
    expect(held.length).toBeGreaterThan(0)
    for (const each of held) expect([each.rows, each.tree]).toEqual([rows, tree])
    await migrate(backend, to)
    const moved = await resumeOnEmptyHost(backend, [], to)
    expect([moved.rows, moved.tree]).toEqual([rows, tree])
  }

  const own = MIGRATE_FAILPOINTS.filter(
    (name) => (to === 'mirror') === /mirror|ended/.test(name) || name === 'migrate:fetched',
  )

  it.each(own)('that dies at %s leaves the session whole, and is ended by doing it again', async (name) => {
    const backend = await fresh()
    const failpoint = async (at: string): Promise<void> => {
      if (at === name) throw new Error('died')
    }
    await expect(migrate(backend, to, { failpoint })).rejects.toThrow('died')
    await judge(backend)
  })

  it('whose calls fail leaves the session whole, and is ended by doing it again', async () => {
    const smooth = await fresh()
    await migrate(smooth, to)
    const calls = smooth.faults.calls.length
    const chosen = Array.from({ length: calls }, (_, at) => at + 1).filter((at) => at % 9 === 0)
    await forEachBounded(chosen, 2, async (at) => {
      const backend = await fresh()
      backend.faults.failNth(at)
      await migrate(backend, to).catch(() => undefined)
      backend.faults.heal()
      await judge(backend)
    })
  }, 60_000)
})
