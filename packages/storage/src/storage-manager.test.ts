import { existsSync, mkdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { NexusError } from '@nexus/errors'
import { describe, expect, it } from 'vitest'
import { fill } from '../test/sample-database.ts'
import { tempManager } from '../test/temp-dir.ts'
import { silentLogger } from '@nexus/host'

describe('scopes', () => {
  it('have the paths of the interchange format', () => {
    const { manager, dir } = tempManager({ agentId: 'writer' })
    expect(manager.open('session', 'nexus.agent.sub/researcher').path).toBe(
      join(dir, 'session/plugins/nexus.agent.sub/researcher/store.db'),
    )
    expect(manager.open('agent', 'p').path).toBe(join(dir, 'root/agents/writer/plugins/p/store.db'))
    expect(manager.open('app', 'p').path).toBe(join(dir, 'root/plugins/p/store.db'))
  })

  it('keep the databases of one plugin apart', () => {
    const { manager } = tempManager({ agentId: 'writer' })
    const scopes = ['session', 'agent', 'app'] as const
    for (const scope of scopes) manager.open(scope, 'p').put('scope', scope)
    expect(scopes.map((scope) => manager.open(scope, 'p').get('scope')?.toString())).toEqual([...scopes])
    expect(scopes.map((scope) => manager.paths(scope).length)).toEqual([1, 1, 1])
  })

  it.each([undefined, ''])('are two without an agent id (%j): agent scope is app scope', async (agentId) => {
    const { manager, dir } = tempManager({ agentId })
    const handle = manager.open('agent', 'p')
    expect(manager.open('app', 'p')).toBe(handle)
    expect(handle).toMatchObject({ scope: 'app', path: join(dir, 'root/plugins/p/store.db') })
    expect(manager.paths('agent')).toEqual([handle.path])
    const [copy] = await manager.snapshot('agent', join(dir, 'copy'))
    expect(copy).toMatchObject({ pluginId: 'p', livePath: handle.path })
  })

  it('refuse ids that leave their directory, before anything is made', () => {
    const { manager, dir } = tempManager({ agentId: '../../x' })
    const refused = expect.objectContaining({ code: 'INVALID_ARGUMENT' })
    expect(() => manager.open('session', '../../evil')).toThrow(refused)
    expect(() => manager.open('agent', 'p')).toThrow(refused)
    expect(() => manager.open('nowhere' as never, 'p')).toThrow(refused)
    expect(existsSync(join(dir, 'session'))).toBe(false)
    expect(existsSync(join(dir, 'root'))).toBe(false)
  })

  it('refuse a path that is too long for SQLite by saying so', () => {
    const { manager } = tempManager()
    const id = ['a', 'b', 'c', 'd'].map((letter) => letter.repeat(120)).join('/')
    expect(() => manager.open('session', id)).toThrow(/504 bytes/)
  })
})

describe('open', () => {
  it('gives the same handle twice', () => {
    const { manager } = tempManager()
    expect(manager.open('session', 'p')).toBe(manager.open('session', 'p'))
  })

  it('gives a fresh handle after the plugin closed the connection', () => {
    const { manager } = tempManager()
    const first = manager.open('session', 'p')
    first.put('a', '1')
    first.db.close()
    const second = manager.open('session', 'p')
    expect(second).not.toBe(first)
    expect(second.get('a')?.toString()).toBe('1')
    expect(() => first.get('a')).toThrow(expect.objectContaining({ code: 'CLOSED' }))
    expect(manager.paths('session')).toEqual([second.path])
  })

  it('finds what an earlier run left', async () => {
    const { manager, dir } = tempManager()
    manager.open('session', 'p').put('a', '1')
    await manager.dispose()
    const next = tempManager({ sessionDir: join(dir, 'session'), storageRoot: join(dir, 'root') })
    expect(next.manager.open('session', 'p').get('a')?.toString()).toBe('1')
  })

  it('makes directories that only their owner can enter', () => {
    const { manager } = tempManager()
    const { path } = manager.open('session', 'p')
    expect(statSync(dirname(path)).mode & 0o777).toBe(0o700)
  })

  it.each([
    ['text', Buffer.from('this is no database, only a text that is long enough to be taken for one'.repeat(20))],
    ['a single byte', Buffer.from('x')],
    ['a text shorter than a page', Buffer.alloc(3000, 'text')],
    ['a database whose first page was overwritten', Buffer.concat([Buffer.alloc(100, 1), Buffer.alloc(8092)])],
  ])('names a file that is %s, and leaves it as it is', (_, bytes) => {
    const { manager, dir } = tempManager()
    const path = join(dir, 'session/plugins/p/store.db')
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, bytes)
    for (let attempt = 0; attempt < 2; attempt++) {
      expect(() => manager.open('session', 'p')).toThrow(
        expect.objectContaining({ code: 'CORRUPT', key: path, message: expect.stringContaining(path) as string }),
      )
    }
    expect(readFileSync(path)).toEqual(bytes)
    expect(manager.paths('session')).toEqual([])
  })

  it('refuses a link or a directory in place of the file', () => {
    const { manager, dir } = tempManager()
    const other = manager.open('session', 'other').path
    mkdirSync(join(dir, 'session/plugins/linked'))
    symlinkSync(other, join(dir, 'session/plugins/linked/store.db'))
    mkdirSync(join(dir, 'session/plugins/folder/store.db'), { recursive: true })
    for (const id of ['linked', 'folder']) {
      expect(() => manager.open('session', id)).toThrow(expect.objectContaining({ code: 'PRECONDITION' }))
    }
  })

  it('says what is wrong with the disk', () => {
    const { manager, dir } = tempManager()
    writeFileSync(join(dir, 'session'), 'a file where the directory should be')
    expect(() => manager.open('session', 'p')).toThrow(
      expect.objectContaining({ code: 'LOCAL_IO', key: join(dir, 'session/plugins/p/store.db') }),
    )
  })
})

describe('beforeOpen', () => {
  it('is asked before anything is made, and what it throws is what open throws', () => {
    const error = new NexusError('UNAVAILABLE', 'not looked for yet')
    const asked: unknown[] = []
    const { manager, dir } = tempManager({
      beforeOpen: (...args) => {
        asked.push(args)
        throw error
      },
    })
    expect(() => manager.open('agent', 'p')).toThrow(error)
    expect(asked).toEqual([['app', 'p', join(dir, 'root/plugins/p/store.db')]])
    expect(existsSync(join(dir, 'root'))).toBe(false)
    expect(manager.paths('app')).toEqual([])
  })

  it('is asked once per connection, not per call', () => {
    let asked = 0
    const { manager } = tempManager({ beforeOpen: () => void asked++ })
    manager.open('session', 'p')
    manager.open('session', 'p')
    expect(asked).toBe(1)
  })
})

describe('fence', () => {
  it('refuses every write from then on, through the raw connection too, and lets what is there be read', () => {
    const { manager } = tempManager()
    const storage = manager.open('session', 'p')
    storage.put('k', 'v')
    const reason = new NexusError('FENCED', 'another host has the session')
    manager.fence(reason)
    manager.fence(new NexusError('CLOSED', 'later reasons do not count'))
    expect(() => storage.put('k', 'w')).toThrow(reason)
    expect(() => storage.delete('k')).toThrow(reason)
    expect(() => storage.tx(() => undefined)).toThrow(reason)
    expect(() => storage.db.exec('DELETE FROM kv')).toThrow(/readonly/)
    expect(() => manager.open('session', 'another')).toThrow(reason)
    expect(manager.open('session', 'p').get('k')?.toString()).toBe('v')
  })
})

describe('closeAll', () => {
  it('closes the handles, leaves one plain file each, and snapshots go on', async () => {
    const { manager, dir } = tempManager()
    const storage = manager.open('session', 'p')
    const reader = storage.reader()
    storage.put('a', '1')
    fill(manager.open('session', 'large').db, 3000)
    await manager.closeAll()
    expect(() => storage.get('a')).toThrow(expect.objectContaining({ code: 'CLOSED' }))
    expect(() => manager.open('session', 'p')).toThrow(expect.objectContaining({ code: 'CLOSED' }))
    expect(reader.db.open).toBe(false)
    for (const path of manager.paths('session')) expect(existsSync(`${path}-wal`)).toBe(false)
    const copies = await manager.snapshot('session', join(dir, 'copy'))
    expect(copies.map(({ pluginId }) => pluginId)).toEqual(['large', 'p'])
    expect(await manager.checkpoint('session')).toMatchObject([{ busy: false }, { busy: false }])
  })

  it('empties a large WAL in the worker first, because the last connection to close would do it here', async () => {
    const reached: string[] = []
    const { manager } = tempManager({ failpoint: (name) => void reached.push(name) })
    const { db, path } = manager.open('session', 'p')
    db.pragma('wal_autocheckpoint = 0')
    fill(db, 1000)
    manager.open('session', 'small').put('a', '1')
    reached.length = 0
    await manager.closeAll()
    expect(reached.filter((name) => name === 'storage:before-checkpoint')).toHaveLength(1)
    expect(existsSync(`${path}-wal`)).toBe(false)
  })

  it('warns of a connection that an open iterator keeps, and does not fail', async () => {
    const warnings: object[] = []
    const warn = (fields: object): void => void warnings.push(fields)
    const { manager, dir } = tempManager({ logger: { ...silentLogger, warn } })
    const storage = manager.open('session', 'p')
    storage.put('a', '1')
    const rows = storage.db.prepare('SELECT * FROM kv').iterate()
    rows.next()
    await manager.closeAll()
    expect(warnings).toEqual([{ pluginId: 'p', path: storage.path }])
    expect(() => storage.list()).toThrow(expect.objectContaining({ code: 'CLOSED' }))
    expect(await manager.snapshot('session', join(dir, 'copy'))).toHaveLength(1)
    rows.return?.()
  })

  it('may be called twice, and before dispose', async () => {
    const { manager } = tempManager()
    manager.open('session', 'p')
    await Promise.all([manager.closeAll(), manager.closeAll(), manager.dispose(), manager.dispose()])
    await expect(manager.closeAll()).resolves.toBeUndefined()
    await expect(manager.dispose()).resolves.toBeUndefined()
  })
})

describe('dispose', () => {
  it('ends everything', async () => {
    const { manager, dir } = tempManager()
    const storage = manager.open('session', 'p')
    await manager.dispose()
    const closed = expect.objectContaining({ code: 'CLOSED' })
    expect(() => manager.open('session', 'p')).toThrow(closed)
    expect(() => storage.get('a')).toThrow(closed)
    await expect(manager.snapshot('session', join(dir, 'copy'))).rejects.toThrow(closed)
    await expect(manager.snapshotForeign(storage.path, join(dir, 'x'))).rejects.toThrow(closed)
    await expect(manager.checkpoint('session')).rejects.toThrow(closed)
  })

  it('rejects a copy that is running, and leaves nothing of it', async () => {
    const { manager, dir } = tempManager()
    fill(manager.open('session', 'p').db, 3000)
    const [copy] = await Promise.allSettled([manager.snapshot('session', join(dir, 'copy')), manager.dispose()])
    expect(copy).toMatchObject({ status: 'rejected', reason: { code: 'CLOSED' } })
    expect(existsSync(join(dir, 'copy/p/store.db'))).toBe(false)
  })
})
