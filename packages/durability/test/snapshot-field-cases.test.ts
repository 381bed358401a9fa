import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import {
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import Database from 'better-sqlite3'
import { openStorageManager } from '@nexus/storage'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { describeTree, Lab, read, TREE_KEY, write, type Host } from './durability-fixture.ts'

let lab: Lab
let a: Host
let children: ChildProcess[] = []
beforeEach(() => {
  lab = new Lab()
  a = lab.host()
})
afterEach(async () => {
  for (const child of children) child.kill('SIGKILL')
  const running = children.filter(({ exitCode, signalCode }) => exitCode === null && signalCode === null)
  await Promise.all(running.map((child) => once(child, 'close')))
  children = []
  await lab.remove()
})

async function start(script: string, ...args: string[]): Promise<ChildProcess> {
  const path = fileURLToPath(new URL(script, import.meta.url))
  const child = spawn(process.execPath, [...process.execArgv, path, ...args], { stdio: ['ignore', 'pipe', 'inherit'] })
  children.push(child)
  await once(child.stdout, 'data')
  return child
}

function openReadOnly(path: string): InstanceType<typeof Database> {
  return new Database(path, { readonly: true, fileMustExist: true })
}

describe('a file that another process appends to every millisecond', () => {
  it('is committed at every turn as a prefix that really was there', async () => {
    mkdirSync(join(a.dir, 'files'))
    const path = join(a.dir, 'files/log')
    writeFileSync(path, '')
    await start('./snapshot-appender-child.ts', path)
    for (let turn = 0; turn < 5; turn++) {
      const { committed: manifest } = await lab.snapshot(a)
      const stored = lab.object('files/log') ?? ''
      expect(manifest.entries['files/log']?.size).toBe(stored.length)
      expect(readFileSync(path, 'utf8').startsWith(stored)).toBe(true)
      const host = lab.host({ empty: true })
      expect((await lab.hydrate(host, { onMixed: 'fail' })).mixed).toBeUndefined()
      expect(read(host, 'files/log')).toBe(stored)
    }
    expect(lab.object('files/log')).toContain('line 2\n')
  })
})

describe('files that the engine may not read', () => {
  it('of mode 000 are listed, keep their committed version, and hold up nothing', async () => {
    const base = mkdtempSync(join(tmpdir(), 'nexus-unprivileged-'))
    try {
      if (process.getuid?.() === 0) chownSync(base, 65534, 65534)
      const path = fileURLToPath(new URL('./snapshot-unprivileged-child.ts', import.meta.url))
      const child = spawn(process.execPath, [...process.execArgv, path, base], { stdio: ['ignore', 'pipe', 'inherit'] })
      let output = ''
      child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()))
      const [code] = (await once(child, 'close')) as [number]
      expect(code).toBe(0)
      const said = JSON.parse(output) as Record<string, never>
      expect(said['uid']).not.toBe(0)
      // Directories that can't be written to are filled before they are closed, links included.
      expect(said['firstRestored']).toEqual(said['firstTree'])
      expect(said['firstUnstored']).toEqual([])
      expect(said['secondUnstored']).toEqual(['files/closed', 'files/new-secret', 'files/secret'])
      expect(said['secondObjects']).toEqual([
        'files/closed/inside',
        'files/read-only-dir/file',
        'files/readable',
        'files/secret',
      ])
      expect(said['links']).toEqual(['files/closed/link', 'files/read-only-dir/link'])
      expect(said['closedMode']).toBe(0)
      const { secondRestored, firstTree } = said as unknown as Record<string, Record<string, string>>
      for (const kept of ['files/secret', 'files/closed/inside', 'files/closed/link', 'files/closed/empty']) {
        expect([kept, secondRestored?.[kept]]).toEqual([kept, firstTree?.[kept]])
      }
      expect(secondRestored?.['files/new-secret']).toBeUndefined()
    } finally {
      rmSync(base, { recursive: true, force: true })
    }
  })
})

describe('a database that a tool keeps under files/', () => {
  it.each(['wal', 'delete', 'truncate', 'persist'])(
    'in mode %s, written in a loop through the boundary, is a state that existed',
    async (mode) => {
      mkdirSync(join(a.dir, 'files'))
      await start('./snapshot-database-child.ts', join(a.dir, 'files/tool.data'), mode)
      for (let turn = 0; turn < 4; turn++) {
        const { unstored, committed: manifest } = await lab.snapshot(a)
        // A writer that never lets go of its lock may keep a copy from being made; the committed one then stays.
        const kept = turn === 0 ? [] : ['files/tool.data']
        expect([[], kept]).toContainEqual(unstored)
        expect(manifest.objects).toEqual(['files/tool.data'])
        const host = lab.host({ empty: true })
        await lab.hydrate(host, { onMixed: 'fail' })
        expect(readdirSync(join(host.dir, 'files'))).toEqual(['tool.data'])
        const db = openReadOnly(join(host.dir, 'files/tool.data'))
        expect(db.pragma('integrity_check', { simple: true })).toBe('ok')
        const { rows, last } = db.prepare('select count(*) as rows, max(n) as last from pairs').get() as Record<
          string,
          number
        >
        db.close()
        expect(rows).toBe(last)
        expect((rows ?? 1) % 2).toBe(0)
      }
    },
  )

  it('whose writer was killed in the middle of a transaction is what the next start would see', async () => {
    mkdirSync(join(a.dir, 'files'))
    const path = join(a.dir, 'files/tool.sqlite')
    const child = await start('./snapshot-database-child.ts', path, 'delete')
    for (let tries = 0; tries < 1000 && !existsSync(`${path}-journal`); tries++)
      await new Promise((resolve) => setImmediate(resolve))
    child.kill('SIGKILL')
    await once(child, 'close')
    await lab.snapshot(a)
    const b = lab.host({ empty: true })
    await lab.hydrate(b)
    const db = openReadOnly(join(b.dir, 'files/tool.sqlite'))
    expect(db.pragma('integrity_check', { simple: true })).toBe('ok')
    expect(db.prepare('select count(*) % 2 as odd from pairs').pluck().get()).toBe(0)
    db.close()
  })

  it('is not confused with a text that has a diary beside it', async () => {
    write(a, 'files/notes', 'text')
    write(a, 'files/notes-journal', 'dear diary')
    write(a, 'files/notes-wal', 'a wall')
    write(a, 'files/alone-journal', 'no notes')
    write(a, 'files/empty', '')
    write(a, 'files/empty-journal', '')
    await lab.snapshot(a)
    const b = lab.host({ empty: true })
    await lab.hydrate(b)
    expect(describeTree(b.dir)).toEqual(describeTree(a.dir))
    expect(describeTree(a.dir)['files/notes-journal']).toBeDefined()
  })

  it('that another one keeps locked is listed, and the committed one stays', async () => {
    mkdirSync(join(a.dir, 'files'))
    const db = new Database(join(a.dir, 'files/tool.db'))
    db.exec('create table t (n integer); insert into t values (1)')
    await lab.snapshot(a)
    db.exec('begin exclusive; insert into t values (2)')
    const storage = openStorageManager({ sessionDir: a.dir, storageRoot: join(a.root, '.other'), busyTimeoutMs: 20 })
    const { unstored, committed: manifest } = await lab.snapshot(a, { storage })
    await storage.dispose()
    db.close()
    expect(unstored).toEqual(['files/tool.db'])
    expect(manifest.objects).toEqual(['files/tool.db'])
    const b = lab.host({ empty: true })
    await lab.hydrate(b, { onMixed: 'fail' })
    const copy = openReadOnly(join(b.dir, 'files/tool.db'))
    expect(copy.prepare('select n from t').pluck().all()).toEqual([1])
    copy.close()
  })

  it('that is damaged beyond recognition is kept as it is: there may be something left to save', async () => {
    write(a, 'files/tool.db', `SQLite format 3\0${'garbage'.repeat(1000)}`)
    write(a, 'files/tool.db-wal', '')
    const { unstored, committed: manifest } = await lab.snapshot(a)
    expect([unstored, manifest.objects]).toEqual([[], ['files/tool.db']])
    expect(lab.object('files/tool.db')).toBe(read(a, 'files/tool.db'))
  })
})

describe('the databases of plugins', () => {
  it('are committed with what is committed in them, whatever their plugins are in the middle of', async () => {
    const storage = lab.storage(a)
    const reading = storage.open('session', 'reader').db
    reading.exec('create table t (n integer); insert into t values (1), (2), (3)')
    const iterator = reading.prepare('select n from t').iterate()
    iterator.next()
    const writing = storage.open('session', 'writer').db
    writing.exec('create table t (n integer); insert into t values (1)')
    writing.exec('begin immediate; insert into t values (2)')
    const custom = storage.open('session', 'custom').db
    custom.function('twice', { deterministic: true }, (n: unknown) => Number(n) * 2)
    custom.exec('create table t (n integer); create index twice_n on t (twice(n)); insert into t values (21)')
    const { committed: manifest, dbBytes } = await lab.snapshot(a)
    iterator.return?.()
    writing.exec('rollback')
    expect(manifest.objects).toEqual(['custom', 'reader', 'writer'].map((plugin) => `plugins/${plugin}/store.db`))
    expect(dbBytes).toBe(manifest.objects.reduce((sum, path) => sum + (manifest.entries[path]?.size ?? 0), 0))
    const b = lab.host({ empty: true })
    await lab.hydrate(b)
    const rows = (plugin: string): unknown[] => {
      const db = openReadOnly(join(b.dir, `plugins/${plugin}/store.db`))
      const all = db.prepare('select n from t').pluck().all()
      db.close()
      return all
    }
    expect([rows('reader'), rows('writer'), rows('custom')]).toEqual([[1, 2, 3], [1], [21]])
    expect(readdirSync(join(b.dir, 'plugins/reader'))).toEqual(['store.db'])
  })

  it('are in the final snapshot after their handles are closed', async () => {
    const storage = lab.storage(a)
    storage.open('session', 'p').put('key', 'value')
    await storage.closeAll()
    expect((await lab.snapshot(a)).committed.objects).toEqual(['plugins/p/store.db'])
  })

  it('that can not be copied fail the snapshot: no commit without one of them', async () => {
    const storage = lab.storage(a)
    const { db } = storage.open('session', 'p')
    db.exec('create table t (n integer)')
    const path = join(a.dir, 'plugins/p/store.db')
    await lab.snapshot(a)
    await storage.closeAll()
    truncateSync(path, 100)
    await expect(lab.snapshot(a)).rejects.toMatchObject({ message: expect.stringContaining('plugin p') })
    expect(lab.committed?.generation).toBe(1)
  })
})

describe('names that read the same and are not', () => {
  it('are never swapped: the one that can not be a key is named, the other keeps its content', async () => {
    write(a, 'files/\uFFFD', 'the real one')
    writeFileSync(Buffer.concat([Buffer.from(join(a.dir, 'files/')), Buffer.from([0xff])]), 'the other')
    const { unstored } = await lab.snapshot(a)
    expect(unstored).toEqual(['files/\\xff'])
    const b = lab.host({ empty: true })
    await lab.hydrate(b)
    expect(read(b, 'files/\uFFFD')).toBe('the real one')
    expect(readdirSync(join(b.dir, 'files'))).toHaveLength(1)
  })
})

describe('many files', () => {
  it('more than two pages of a listing, come back one and all', async () => {
    for (let n = 0; n < 2501; n++) write(a, `files/${n % 50}/${n}`, `${n}`)
    expect((await lab.snapshot(a)).objects).toBe(2501)
    const b = lab.host({ empty: true })
    expect(await lab.hydrate(b, { onMixed: 'fail' })).toMatchObject({ objects: 2501 })
    expect(describeTree(b.dir)).toEqual(describeTree(a.dir))
    expect([...lab.backend.objects.keys()].filter((key) => key.startsWith(`${TREE_KEY}/`))).toHaveLength(2501)
  })
})
