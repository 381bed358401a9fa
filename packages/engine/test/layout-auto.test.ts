import { existsSync } from 'node:fs'
import { join } from 'node:path'
import {
  type Capability,
  createMemoryBackend,
  type MemoryBackend,
  withoutCapabilities,
} from '@nexus/objectstore-memory-test'
import { tempDir } from '@nexus/host/testing'
import { describe, expect, it } from 'vitest'
import { Engine } from '../src/engine.ts'

type Layout = 'auto' | 'mirror' | 'versioned'

/** One host: a disk of its own, or one that an earlier run left. */
class Host {
  readonly root: string
  readonly backend: MemoryBackend
  readonly absent: readonly Capability[]

  constructor(backend: MemoryBackend, { root, absent = [] }: { root?: string; absent?: readonly Capability[] } = {}) {
    this.root = root ?? tempDir()
    this.backend = backend
    this.absent = absent
  }

  get hasRecord(): boolean {
    return existsSync(join(this.root, 'sessions/s1/session.record.jsonl'))
  }

  /** Boots the session, writes a file, commits and stops. Gives what it found of an earlier file. */
  async run(
    layout: Layout,
    { id = 's1', more = {} }: { id?: string | undefined; more?: object } = {},
  ): Promise<string> {
    const object_store = { layout, ...more }
    const core = { sessions: { root: join(this.root, 'sessions') }, storage: { root: this.root }, object_store }
    const { backend, absent } = this
    const engine = await Engine.fromConfig(
      { core, plugins: { active: [] } },
      {
        recallSessionId: id,
        backend: absent.length === 0 ? backend : withoutCapabilities(backend, absent),
      },
    )
    await engine.boot()
    const found = await engine.session.readFile('files/a.txt').then(String, () => '')
    await engine.session.writeFile('files/a.txt', `${found}x`)
    await engine.commit().catch(() => undefined)
    await engine.stop()
    return found
  }
}

function layoutIn({ objects }: MemoryBackend): string {
  const keys = [...objects.keys()]
  const has = (part: string): boolean => keys.some((key) => key.startsWith(`sessions/s1${part}`))
  return [has('.v/') ? 'versioned' : '', has('.manifest/') ? 'mirror' : ''].filter(Boolean).join(' ')
}

describe('layout auto', () => {
  it('begins a session versioned, and goes on with it here and elsewhere', async () => {
    const backend = createMemoryBackend()
    const host = new Host(backend)
    await host.run('auto')
    expect(layoutIn(backend)).toBe('versioned')
    expect(await host.run('auto')).toBe('x')
    expect(await new Host(backend).run('auto')).toBe('xx')
    expect(layoutIn(backend)).toBe('versioned')
  })

  it.each(['get', 'putIfAbsent'] as const)(
    'begins a session as a mirror where the backend has no %s',
    async (absent) => {
      const backend = createMemoryBackend()
      const host = new Host(backend, { absent: [absent] })
      await host.run('auto')
      expect(layoutIn(backend)).toBe('mirror')
      expect(await host.run('auto')).toBe('x')
    },
  )

  it('goes on with a mirror session, whether it lies here or in the store alone', async () => {
    const backend = createMemoryBackend()
    const host = new Host(backend)
    await host.run('mirror')
    expect(await host.run('auto')).toBe('x')
    expect(await new Host(backend).run('auto')).toBe('xx')
    expect(layoutIn(backend)).toBe('mirror')
  })

  it.each(['mirror', 'versioned'] as const)(
    'goes on in the layout that this machine remembers while the store is down: %s',
    async (layout) => {
      const backend = createMemoryBackend()
      const host = new Host(backend)
      await host.run(layout)
      const before = [...backend.objects.keys()].length
      backend.faults.failWhen(() => true)
      expect(await host.run('auto')).toBe('x')
      expect([...backend.objects.keys()]).toHaveLength(before)
      backend.faults.heal()
      expect(await host.run('auto')).toBe('xx')
      expect(await new Host(backend).run('auto')).toBe('xxx')
      expect(layoutIn(backend)).toBe(layout)
      expect(host.hasRecord).toBe(layout === 'versioned')
    },
  )

  it('refuses to guess where neither the store nor this machine can say', async () => {
    const backend = createMemoryBackend()
    backend.faults.failWhen(() => true)
    await expect(new Host(backend).run('auto')).rejects.toMatchObject({ code: 'UNAVAILABLE' })
  })

  it('follows what the store holds when this machine remembers another layout', async () => {
    const [one, other] = [createMemoryBackend(), createMemoryBackend()]
    await new Host(one).run('versioned')
    const host = new Host(other)
    await host.run('mirror')
    // The same disk over another bucket, in which the id is a chain: its tree is not of that chain.
    expect(await new Host(one, { root: host.root }).run('auto')).toBe('x')
    expect(layoutIn(one)).toBe('versioned')
  })

  it.each([
    ['versioned', 'mirror'],
    ['mirror', 'versioned'],
  ] as const)('is the way out where %s is written and the session is a %s', async (written, stored) => {
    const backend = createMemoryBackend()
    await new Host(backend).run(stored)
    await expect(new Host(backend).run(written)).rejects.toMatchObject({
      code: 'PRECONDITION',
      message: expect.stringMatching(new RegExp(`core.object_store.layout ${stored} or auto`)) as string,
    })
    expect(layoutIn(backend)).toBe(stored)
    expect(await new Host(backend).run('auto')).toBe('x')
  })

  it.each([
    ['on_lost', 'overwrite'],
    ['stale_local', 'keep'],
  ])('refuses %s: %s for a session that is versioned, and takes it for a mirror', async (key, value) => {
    const backend = createMemoryBackend()
    const more = { [key]: value }
    await expect(new Host(backend).run('auto', { more })).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
      message: expect.stringContaining(key) as string,
    })
    await new Host(backend).run('mirror')
    expect(await new Host(backend).run('auto', { more })).toBe('x')
  })
})
