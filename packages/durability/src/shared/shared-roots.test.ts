import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { NexusError } from '@nexus/errors'
import type { MemoryBackend } from '@nexus/objectstore-memory-test'
import { openStorageManager, type StorageManager } from '@nexus/storage'
import Database from 'better-sqlite3'
import { describe, expect, it } from 'vitest'
import { keepingLogger, ManualClock } from '@nexus/host/testing'
import { elapse, newDir, newStore, plant, storedText } from '../../test/memory-store.ts'
import { acquireSessionLock, type Failpoint, noFailpoint } from '@nexus/host'
import { SharedRootsRecord } from './shared-roots-record.ts'
import { SharedRoots, type SharedResult } from './shared-roots.ts'

const APP_KEY = 'plugins/nexus.budget/store.db'
const AGENT_KEY = 'agents/agent-1/plugins/nexus.budget/store.db'
const live = new AbortController().signal

interface MachineOptions {
  root?: string
  backend?: MemoryBackend
  agentId?: string
  absent?: ('get' | 'putIfAbsent')[]
  failpoint?: Failpoint
  storeId?: string
  /** A process without an object store: nobody asks before a database is opened. */
  unguarded?: boolean
}

type Machine = ReturnType<typeof newMachine>

/** One process of a machine: shared roots and databases over one storage root. */
function newMachine(options: MachineOptions = {}) {
  const { root = newDir('machine'), agentId, failpoint = noFailpoint, storeId = 'memory-test:bucket' } = options
  const test = newStore({
    ...(options.backend === undefined ? {} : { of: options.backend }),
    ...(options.absent === undefined ? {} : { absent: options.absent }),
  })
  const logger = keepingLogger()
  const unreachable: Error[] = []
  const lost: string[] = []
  const shared = new SharedRoots({
    store: test.store,
    storeId,
    sessionId: 's1',
    storageRoot: root,
    agentId,
    clock: test.clock,
    logger,
    failpoint,
    lockMs: 30_000,
    onUnreachable: (error) => void unreachable.push(error),
    onForked: (key) => void lost.push(key),
  })
  let storage: StorageManager | undefined
  const open = (): StorageManager =>
    (storage ??= openStorageManager({
      sessionDir: newDir('session'),
      storageRoot: root,
      agentId,
      ...(options.unguarded === true
        ? {}
        : { beforeOpen: (scope, pluginId, path) => shared.guard(scope, pluginId, path) }),
    }))
  return {
    ...test,
    root,
    shared,
    logger,
    unreachable,
    lost,
    get storage() {
      return open()
    },
    put(key: string, value: string, scope: 'app' | 'agent' = 'app'): void {
      open().open(scope, 'nexus.budget').put(key, value)
    },
    get(key: string, scope: 'app' | 'agent' = 'app'): string | undefined {
      return open().open(scope, 'nexus.budget').get(key)?.toString()
    },
    snapshot: (): Promise<SharedResult> => shared.snapshot(open(), live),
    async close(): Promise<void> {
      await storage?.closeAll()
      await storage?.dispose()
    },
  }
}

/** The row of a stored database, read by opening the object as a database. */
function storedRow(backend: MemoryBackend, key: string, row: string): string | undefined {
  const bytes = backend.objects.get(key)?.bytes
  if (bytes === undefined) return undefined
  const db = new Database(Buffer.from(bytes))
  try {
    const found = db.prepare('SELECT value FROM kv WHERE key = ?').get(row) as { value: Buffer } | undefined
    return found?.value.toString()
  } finally {
    db.close()
  }
}

async function stored(): Promise<MemoryBackend> {
  const a = newMachine({ agentId: 'agent-1' })
  await a.shared.hydrate()
  a.put('k', 'app')
  a.put('k', 'agent', 'agent')
  await a.snapshot()
  await a.close()
  return a.backend
}

describe('storing shared roots', () => {
  it('keys app and agent scope by their paths, and never by the session', async () => {
    const a = newMachine({ agentId: 'agent-1' })
    await a.shared.hydrate()
    a.put('k', 'app')
    a.put('k', 'agent', 'agent')
    expect(await a.snapshot()).toMatchObject({ objects: 2 })
    expect([...a.backend.objects.keys()].toSorted()).toEqual([AGENT_KEY, APP_KEY])
    expect(storedRow(a.backend, APP_KEY, 'k')).toBe('app')
    expect(storedRow(a.backend, AGENT_KEY, 'k')).toBe('agent')
    await a.close()
  })

  it('is app scope for an agent without an id: one path, one key, stored once', async () => {
    const a = newMachine({ agentId: '' })
    await a.shared.hydrate()
    a.put('k', '1')
    a.put('k', '2', 'agent')
    expect(await a.snapshot()).toMatchObject({ objects: 1 })
    expect([...a.backend.objects.keys()]).toEqual([APP_KEY])
    await a.close()
  })

  it('uploads what changed, and flushes it', async () => {
    const a = newMachine()
    await a.shared.hydrate()
    a.put('k', '1')
    await a.snapshot()
    const calls = a.backend.faults.calls.length
    expect(await a.snapshot()).toMatchObject({ objects: 0, bytes: 0 })
    expect(a.backend.faults.calls).toHaveLength(calls)
    a.put('k', '2')
    expect(await a.snapshot()).toMatchObject({ objects: 1 })
    expect(a.backend.faults.calls.slice(calls).map(({ op }) => op)).toEqual(['list', 'put', 'flush', 'list'])
    expect(storedRow(a.backend, APP_KEY, 'k')).toBe('2')
    await a.close()
  })

  it('never throws: a failure is in the result', async () => {
    const a = newMachine()
    await a.shared.hydrate()
    a.put('k', '1')
    a.backend.faults.failWhen(() => true)
    expect(await a.snapshot()).toMatchObject({ objects: 0, error: { code: 'UNAVAILABLE' } })
    a.backend.faults.heal()
    expect(await a.snapshot()).toMatchObject({ objects: 1 })
    expect(await a.snapshot()).not.toHaveProperty('error')
    await a.close()
  })

  it('does nothing for plugins that opened nothing', async () => {
    const a = newMachine()
    await a.shared.hydrate()
    const calls = a.backend.faults.calls.length
    expect(await a.snapshot()).toEqual({ objects: 0, bytes: 0, dbDurationMs: 0 })
    expect(a.backend.faults.calls).toHaveLength(calls)
    await a.close()
  })

  it('works when the databases are closed already', async () => {
    const a = newMachine()
    await a.shared.hydrate()
    a.put('k', 'last')
    await a.storage.closeAll()
    expect(await a.snapshot()).toMatchObject({ objects: 1 })
    expect(storedRow(a.backend, APP_KEY, 'k')).toBe('last')
    await a.close()
  })

  it('puts an object back that somebody removed', async () => {
    const a = newMachine()
    await a.shared.hydrate()
    a.put('k', '1')
    await a.snapshot()
    await a.close()
    a.backend.objects.clear()
    const later = newMachine({ root: a.root, backend: a.backend })
    await later.shared.hydrate()
    expect(later.get('k')).toBe('1')
    expect(await later.snapshot()).toMatchObject({ objects: 1 })
    await later.close()
  })
})

describe('an object that this machine neither hydrated nor stored', () => {
  it.each([{ absent: [] }, { absent: ['putIfAbsent'] }, { absent: ['get'] }, { absent: ['get', 'putIfAbsent'] }] as {
    absent: ('get' | 'putIfAbsent')[]
  }[])('is never overwritten ($absent)', async ({ absent }) => {
    const elsewhere = newMachine()
    await elsewhere.shared.hydrate()
    elsewhere.put('k', 'theirs')
    await elsewhere.snapshot()
    await elsewhere.close()
    const root = newDir()
    const before = newMachine({ root, unguarded: true })
    before.put('k', 'a database from before there was an object store')
    await before.close()
    const here = newMachine({ root, backend: elsewhere.backend, absent })
    await here.shared.hydrate()
    for (let i = 0; i < 3; i++) {
      here.put('more', String(i))
      expect(await here.snapshot()).toMatchObject({ objects: 0 })
    }
    expect(storedRow(here.backend, APP_KEY, 'k')).toBe('theirs')
    expect(here.shared.refused).toEqual([APP_KEY])
    expect(here.logger.lines.filter(({ level }) => level === 'error')).toHaveLength(1)
    await here.close()
  })

  it('is not called unavailable when it is the local disk that refuses', async () => {
    const file = join(newDir(), 'file')
    writeFileSync(file, '')
    const here = newMachine({ root: file })
    await expect(here.shared.hydrate()).rejects.toMatchObject({ code: 'LOCAL_IO' })
  })

  it('is looked for where the store turns out not to decide conditional creates', async () => {
    const refusal = new NexusError('UNSUPPORTED', 'the store ignores the precondition', { op: 'test' })
    const here = newMachine()
    here.backend.faults.failWhen(({ op }) => op === 'putIfAbsent', refusal)
    await here.shared.hydrate()
    here.put('k', 'ours')
    expect(await here.snapshot()).toMatchObject({ objects: 1 })
    expect(storedRow(here.backend, APP_KEY, 'k')).toBe('ours')
    await here.close()
  })

  it('is noticed when it appears between the look and the first store', async () => {
    const here = newMachine()
    await here.shared.hydrate()
    here.put('k', 'ours')
    plant(here.backend, APP_KEY, 'another host was faster')
    expect(await here.snapshot()).toMatchObject({ objects: 0 })
    expect(storedText(here.backend, APP_KEY)).toBe('another host was faster')
    await here.close()
  })

  it('is not what our own first store left when its answer was lost', async () => {
    for (const absent of [[], ['putIfAbsent']] as ('putIfAbsent' | 'get')[][]) {
      const here = newMachine({ absent })
      await here.shared.hydrate()
      here.put('k', 'first')
      const next = here.backend.faults.calls.length + (absent.length === 0 ? 1 : 2)
      here.backend.faults.applyThenFail(next)
      await here.snapshot()
      expect(storedRow(here.backend, APP_KEY, 'k')).toBe('first')
      here.put('k', 'second')
      expect(await here.snapshot()).toMatchObject({ objects: 1 })
      expect(storedRow(here.backend, APP_KEY, 'k')).toBe('second')
      expect(here.shared.refused).toEqual([])
      await here.close()
    }
  })

  it('is not what our own first store left when we died before we knew', async () => {
    for (const where of ['shared-store:before-put', 'shared-store:put']) {
      const root = newDir()
      const dying = newMachine({
        root,
        failpoint: (name) => {
          if (name === where) throw new Error('died here')
        },
      })
      await dying.shared.hydrate()
      dying.put('k', 'first')
      await dying.snapshot()
      await dying.close()
      const later = newMachine({ root, backend: dying.backend })
      await later.shared.hydrate()
      later.put('k', 'second')
      expect(await later.snapshot()).toMatchObject({ objects: 1 })
      expect(storedRow(later.backend, APP_KEY, 'k')).toBe('second')
      await later.close()
    }
  })

  it('is every object, for a machine that now uses another store', async () => {
    const a = newMachine()
    await a.shared.hydrate()
    a.put('k', 'ours')
    await a.snapshot()
    await a.close()
    const moved = newMachine({ root: a.root, storeId: 'memory-test:other-bucket' })
    plant(moved.backend, APP_KEY, 'somebody else’s')
    await moved.shared.hydrate()
    moved.put('k', 'changed')
    expect(await moved.snapshot()).toMatchObject({ objects: 0 })
    expect(storedText(moved.backend, APP_KEY)).toBe('somebody else’s')
    await moved.close()
  })
})

describe('restoring shared roots at boot', () => {
  it.each([{ absent: [] }, { absent: ['get'] }] as { absent: 'get'[] }[])(
    'brings back every store that is missing, app and agent ($absent)',
    async ({ absent }) => {
      const b = newMachine({ backend: await stored(), agentId: 'agent-1', absent })
      await b.shared.hydrate()
      expect(b.get('k')).toBe('app')
      expect(b.get('k', 'agent')).toBe('agent')
      b.put('k', 'from b')
      await b.snapshot()
      expect(storedRow(b.backend, APP_KEY, 'k')).toBe('from b')
      expect(storedRow(b.backend, AGENT_KEY, 'k')).toBe('agent')
      expect(await b.snapshot()).toMatchObject({ objects: 0 })
      await b.close()
    },
  )

  it('never touches one that exists, and decides for each store by itself', async () => {
    const backend = await stored()
    const root = newDir()
    const before = newMachine({ root, unguarded: true })
    before.put('k', 'local')
    await before.close()
    const b = newMachine({ root, backend, agentId: 'agent-1' })
    await b.shared.hydrate()
    expect(b.get('k')).toBe('local')
    expect(b.get('k', 'agent')).toBe('agent')
    await b.close()
  })

  describe('of hosts in turn', () => {
    /** A stored two rows from A, then B took over, added its own and ended. */
    async function inTurn(absent: 'get'[] = []): Promise<{ a: Machine; backend: MemoryBackend }> {
      const a = newMachine({ absent })
      await a.shared.hydrate()
      a.put('from a', 'a')
      await a.snapshot()
      await a.close()
      const b = newMachine({ backend: a.backend, absent })
      await b.shared.hydrate()
      b.put('from b', 'b')
      expect(await b.snapshot()).toMatchObject({ objects: 1 })
      await b.close()
      return { a, backend: a.backend }
    }

    it.each([{ absent: [] }, { absent: ['get'] }] as { absent: 'get'[] }[])(
      'takes over what another host changed, where nothing was changed here ($absent)',
      async ({ absent }) => {
        const { a, backend } = await inTurn(absent)
        const again = newMachine({ root: a.root, backend, absent })
        await again.shared.hydrate()
        expect(again.get('from b')).toBe('b')
        again.put('again from a', 'a')
        expect(await again.snapshot()).toMatchObject({ objects: 1 })
        expect(again.lost).toEqual([])
        const c = newMachine({ backend, absent })
        await c.shared.hydrate()
        expect([c.get('from a'), c.get('from b'), c.get('again from a')]).toEqual(['a', 'b', 'a'])
        await again.close()
        await c.close()
      },
    )

    it('is seen at once by a process of this machine that has the database open', async () => {
      const { a, backend } = await inTurn()
      const open = new Database(join(a.root, APP_KEY))
      const read = (): unknown => open.prepare("SELECT count(*) FROM kv WHERE key = 'from b'").pluck().get()
      expect(read()).toBe(0)
      const again = newMachine({ root: a.root, backend })
      await again.shared.hydrate()
      expect(read()).toBe(1)
      open.close()
      await again.close()
    })

    it('is told when both changed, and neither is lost', async () => {
      const { a, backend } = await inTurn()
      const alone = newMachine({ root: a.root, unguarded: true })
      alone.put('offline', 'a')
      await alone.close()
      const again = newMachine({ root: a.root, backend })
      await again.shared.hydrate()
      expect(again.lost).toEqual([APP_KEY])
      expect(again.shared.refused).toEqual([APP_KEY])
      again.put('more', 'a')
      expect(await again.snapshot()).toMatchObject({ objects: 0 })
      expect([again.get('offline'), again.get('from b')]).toEqual(['a', undefined])
      expect(storedRow(backend, APP_KEY, 'from b')).toBe('b')
      expect(again.logger.lines.filter(({ level }) => level === 'error')).toHaveLength(1)
      await again.close()
    })

    it('is told when another host stored while this one ran, and is not overwritten', async () => {
      const a = newMachine()
      await a.shared.hydrate()
      a.put('from a', 'a')
      await a.snapshot()
      const b = newMachine({ backend: a.backend })
      await b.shared.hydrate()
      b.put('from b', 'b')
      await b.snapshot()
      a.put('late', 'a')
      expect(await a.snapshot()).toMatchObject({ objects: 0 })
      expect(a.lost).toEqual([APP_KEY])
      expect(storedRow(a.backend, APP_KEY, 'from b')).toBe('b')
      await a.close()
      await b.close()
    })

    it('asks for no bytes while the store lists what it listed before', async () => {
      const a = newMachine()
      await a.shared.hydrate()
      a.put('k', 'v')
      await a.snapshot()
      await a.close()
      const again = newMachine({ root: a.root, backend: a.backend })
      const before = again.backend.faults.calls.length
      await again.shared.hydrate()
      expect(again.backend.faults.calls.slice(before).map(({ op }) => op)).toEqual(['list'])
      await again.close()
    })
  })

  it('pulls into a plugin directory that holds other files already', async () => {
    const b = newMachine({ backend: await stored(), agentId: 'agent-1' })
    const cache = join(b.root, dirname(APP_KEY), 'cache.bin')
    mkdirSync(dirname(cache), { recursive: true })
    writeFileSync(cache, 'local')
    await b.shared.hydrate()
    expect(b.get('k')).toBe('app')
    expect(readFileSync(cache, 'utf8')).toBe('local')
    await b.close()
  })

  it('carries store.db alone, whatever else lies in the bucket', async () => {
    const backend = await stored()
    plant(backend, 'plugins/nexus.budget/other.txt', 'x')
    plant(backend, 'plugins/store.db', 'x')
    plant(backend, 'plugins/CON/store.db', 'x')
    plant(backend, 'agents/agent-2/plugins/p/store.db', 'x')
    const b = newMachine({ backend, agentId: 'agent-1' })
    await b.shared.hydrate()
    for (const path of ['plugins/nexus.budget/other.txt', 'plugins/store.db', 'plugins/CON', 'agents/agent-2']) {
      expect(existsSync(join(b.root, path))).toBe(false)
    }
    await b.close()
  })

  it('fails the boot on a machine that never looked, when the listing or a download fails', async () => {
    for (const op of ['list', 'get']) {
      const b = newMachine({ backend: await stored() })
      b.backend.faults.failWhen((call) => call.op === op)
      await expect(b.shared.hydrate()).rejects.toMatchObject({ code: 'UNAVAILABLE', key: 'plugins', retryable: true })
      expect(existsSync(join(b.root, APP_KEY))).toBe(false)
    }
  })

  it('starts degraded on a machine that looked before; a store that is missing stays closed until it was looked for', async () => {
    const backend = await stored()
    const root = newDir()
    const before = newMachine({ root, backend })
    await before.shared.hydrate()
    await before.close()
    backend.faults.failWhen(() => true)
    const b = newMachine({ root, backend })
    await b.shared.hydrate()
    expect(b.unreachable).toHaveLength(1)
    expect(b.shared.complete).toBe(false)
    expect(b.get('k')).toBe('app')
    expect(() => b.storage.open('app', 'nexus.other')).toThrow(
      expect.objectContaining({ code: 'UNAVAILABLE', message: expect.stringContaining('nexus.other') as string }),
    )
    expect(existsSync(join(root, 'plugins/nexus.other/store.db'))).toBe(false)
    await expect(b.shared.hydrate({ again: true })).rejects.toMatchObject({ code: 'UNAVAILABLE' })
    backend.faults.heal()
    await b.shared.hydrate({ again: true })
    expect(b.shared.complete).toBe(true)
    expect(b.storage.open('app', 'nexus.other').list()).toEqual([])
    await b.close()
  })

  it('never asks for session scope', () => {
    const b = newMachine()
    expect(() => b.shared.guard('session', 'p', '/nowhere')).not.toThrow()
    expect(() => b.shared.guard('app', 'p', '/nowhere')).toThrow(expect.objectContaining({ code: 'UNAVAILABLE' }))
  })

  it('does not replace a database that another process created meanwhile, nor store it over the object', async () => {
    const backend = await stored()
    const root = newDir()
    const other = newMachine({ root, unguarded: true })
    const b = newMachine({
      root,
      backend,
      failpoint: (name) => {
        if (name === 'shared-pull:fetched') other.put('k', 'created meanwhile')
      },
    })
    await b.shared.hydrate()
    expect(b.get('k')).toBe('created meanwhile')
    b.put('more', 'x')
    expect(await b.snapshot()).toMatchObject({ objects: 0 })
    expect(storedRow(backend, APP_KEY, 'k')).toBe('app')
    await b.close()
    await other.close()
  })

  it('leaves nothing half done when it dies in the middle', async () => {
    for (const where of ['shared-pull:fetched', 'shared-pull:published']) {
      const root = newDir()
      const backend = await stored()
      const dying = newMachine({
        root,
        backend,
        failpoint: (name) => {
          if (name === where) throw new Error('died here')
        },
      })
      await expect(dying.shared.hydrate()).rejects.toThrow('died here')
      const b = newMachine({ root, backend })
      await b.shared.hydrate()
      expect(b.get('k')).toBe('app')
      b.put('k', 'next')
      expect(await b.snapshot()).toMatchObject({ objects: 1 })
      await b.close()
    }
  })

  it('refuses a download that came short', async () => {
    const backend = await stored()
    const short = newMachine({ backend })
    const { store } = short
    const get = store.get.bind(store)
    store.get = async (key, path, options) => {
      await get(key, path, options)
      writeFileSync(path, readFileSync(path).subarray(0, 100))
    }
    await expect(short.shared.hydrate()).rejects.toMatchObject({ code: 'CORRUPT' })
    expect(existsSync(join(short.root, APP_KEY))).toBe(false)
  })
})

describe('two processes on one shared store', () => {
  it('copy and upload one after the other: the later upload holds what the earlier one held', async () => {
    const root = newDir()
    const first = newMachine({ root })
    await first.shared.hydrate()
    first.put('k', '0')
    await first.snapshot()
    let release!: () => void
    const held = new Promise<void>((resolve) => {
      release = resolve
    })
    const copied: string[] = []
    const slow = newMachine({
      root,
      backend: first.backend,
      failpoint: async (name) => {
        if (name !== 'shared-store:copied') return
        copied.push('slow')
        await held
      },
    })
    const quick = newMachine({
      root,
      backend: first.backend,
      failpoint: (name) => void (name === 'shared-store:copied' && copied.push('quick')),
    })
    await Promise.all([slow.shared.hydrate(), quick.shared.hydrate()])
    slow.put('k', '1')
    const slowStored = slow.snapshot()
    await new Promise((resolve) => {
      setTimeout(resolve, 20)
    })
    quick.put('k', '2')
    const quickStored = quick.snapshot()
    await new Promise((resolve) => {
      setTimeout(resolve, 20)
    })
    expect(copied).toEqual(['slow'])
    release()
    await Promise.all([slowStored, quickStored])
    expect(copied).toEqual(['slow', 'quick'])
    expect(storedRow(first.backend, APP_KEY, 'k')).toBe('2')
    await Promise.all([first.close(), slow.close(), quick.close()])
  })

  it('hold the lock from the copy to the end of the upload', async () => {
    const root = newDir()
    const lockDir = new SharedRootsRecord(root, 'memory-test:bucket').lockDir(APP_KEY)
    const seen: string[] = []
    const a = newMachine({
      root,
      failpoint: async (name) => {
        if (!name.startsWith('shared-store:')) return
        const lock = await acquireSessionLock(lockDir, { transport: 'another', clock: new ManualClock() }).catch(
          () => undefined,
        )
        seen.push(`${name} ${lock === undefined ? 'held' : 'free'}`)
        lock?.release()
      },
    })
    await a.shared.hydrate()
    a.put('k', '1')
    await a.snapshot()
    a.put('k', '2')
    await a.snapshot()
    expect(seen).toEqual([
      'shared-store:copied held',
      'shared-store:before-put held',
      'shared-store:copied held',
      'shared-store:put held',
    ])
    await a.close()
  })

  it('wait for each other for a bounded time, and then say so', async () => {
    const a = newMachine()
    await a.shared.hydrate()
    a.put('k', '1')
    const lockDir = new SharedRootsRecord(a.root, 'memory-test:bucket').lockDir(APP_KEY)
    mkdirSync(lockDir, { recursive: true })
    const lock = await acquireSessionLock(lockDir, { transport: 'test', clock: new ManualClock() })
    const result = await elapse(a.snapshot(), a.clock)
    expect(result).toMatchObject({ objects: 0, error: { code: 'UNAVAILABLE' } })
    lock.release()
    expect(await a.snapshot()).toMatchObject({ objects: 1 })
    await a.close()
  })
})
