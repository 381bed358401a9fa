import {
  lstatSync,
  mkdirSync,
  readdirSync,
  renameSync,
  statSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import Database from 'better-sqlite3'
import { describe, expect, it, onTestFinished } from 'vitest'
import { tempDir, tempManager } from '../../test/temp-dir.ts'
import { lookAt, openAt, type Place } from './place.ts'

const IDS = ['main', 'nexus.tool/shell', 'acme/agents/researcher']
const refused = expect.objectContaining({ code: 'PRECONDITION' }) as unknown

/** A directory outside of the session that holds another database at the same relative path. */
function makeVictim(dir: string, below: string): string {
  const victim = join(dir, 'victim')
  const path = join(victim, below, 'store.db')
  mkdirSync(dirname(path), { recursive: true })
  new Database(path).exec("CREATE TABLE secret (a); INSERT INTO secret VALUES ('4711')").close()
  return victim
}

function listing(dir: string): string[] {
  return readdirSync(dir, { recursive: true, encoding: 'utf8' }).toSorted()
}

describe('the files of a database', () => {
  it('are for their owner alone, sidecars and directories too, whatever the umask', () => {
    const umask = process.umask(0)
    onTestFinished(() => void process.umask(umask))
    const { manager, dir } = tempManager()
    for (const scope of ['session', 'app'] as const) {
      const storage = manager.open(scope, 'nexus.tool/shell')
      storage.put('a', '1')
      for (const suffix of ['', '-wal', '-shm']) {
        expect(statSync(storage.path + suffix).mode & 0o777).toBe(0o600)
      }
    }
    for (const path of ['session', 'session/plugins/nexus.tool/shell', 'root/plugins/nexus.tool/shell']) {
      expect(statSync(join(dir, path)).mode & 0o777).toBe(0o700)
    }
    expect(listing(dir).filter((name) => name.includes('.nexus-tmp-'))).toEqual([])
  })
})

describe.each(IDS)('the way to the database of %s', (id) => {
  const parts = id.split('/')

  it.each(parts.map((_, index) => index))(
    'is refused when part %i of it is a link, and nothing is made there',
    (index) => {
      const { manager, dir } = tempManager()
      const outside = join(dir, 'outside')
      mkdirSync(outside)
      const link = join(dir, 'session/plugins', ...parts.slice(0, index + 1))
      mkdirSync(dirname(link), { recursive: true })
      symlinkSync(outside, link)
      expect(() => manager.open('session', id)).toThrow(refused)
      expect(readdirSync(outside)).toEqual([])
    },
  )

  it('may become a link while it is opened: the other database is neither read nor written', () => {
    const { dir, manager } = tempManager({
      failpoint: (name) => {
        if (name !== 'storage:open-before-wal') return
        const plugins = join(dir, 'session/plugins')
        if (lstatSync(plugins).isSymbolicLink()) return
        renameSync(plugins, join(dir, 'moved'))
        symlinkSync(victim, plugins)
      },
    })
    const victim = makeVictim(dir, id)
    const before = listing(victim)
    expect(() => manager.open('session', id)).toThrow(refused)
    expect(listing(victim)).toEqual(before)
  })
})

describe('a place that is swapped', () => {
  function setUp(): { place: Place; swap: () => void; swapBack: () => void } {
    const dir = tempDir()
    const place = { root: join(dir, 'session'), path: join(dir, 'session/plugins/p/store.db') }
    mkdirSync(dirname(place.path), { recursive: true })
    new Database(place.path).exec('CREATE TABLE mine (a)').close()
    const victim = makeVictim(dir, 'p')
    const plugins = join(dir, 'session/plugins')
    const swap = (): void => {
      renameSync(plugins, join(dir, 'moved'))
      symlinkSync(victim, plugins)
    }
    const swapBack = (): void => {
      unlinkSync(plugins)
      renameSync(join(dir, 'moved'), plugins)
    }
    return { place, swap, swapBack }
  }

  const read = (db: Database.Database): void => void db.pragma('schema_version')

  it('for another while SQLite opens it, and swapped back, is noticed before anything is read', () => {
    const { place, swap, swapBack } = setUp()
    let prepared = 0
    const connect = (): Database.Database => {
      swap()
      const db = new Database(place.path)
      swapBack()
      return db
    }
    expect(() => openAt(place, 'Opening it', { connect, prepare: () => void prepared++ })).toThrow(refused)
    expect(prepared).toBe(0)
  })

  it('for a real directory that brings another database, and swapped back, is noticed by the change time', () => {
    const { place } = setUp()
    const plugins = dirname(dirname(place.path))
    const dir = dirname(dirname(plugins))
    let prepared = 0
    const connect = (): Database.Database => {
      renameSync(plugins, join(dir, 'moved'))
      renameSync(join(dir, 'victim'), plugins)
      const db = new Database(place.path)
      renameSync(plugins, join(dir, 'victim'))
      renameSync(join(dir, 'moved'), plugins)
      return db
    }
    expect(() => openAt(place, 'Opening it', { connect, prepare: () => void prepared++ })).toThrow(refused)
    expect(prepared).toBe(0)
  })

  it('and swapped back once is opened at the next attempt', () => {
    const { place, swap, swapBack } = setUp()
    let opened = 0
    const connect = (): Database.Database => {
      if (opened++ > 0) return new Database(place.path)
      swap()
      const db = new Database(place.path)
      swapBack()
      return db
    }
    const { db, file } = openAt(place, 'Opening it', { connect, prepare: read })
    expect(db.prepare('SELECT name FROM sqlite_schema').pluck().all()).toEqual(['mine'])
    expect(file.ino).toBe(statSync(place.path, { bigint: true }).ino)
    db.close()
  })

  it('by a link in place of the file itself is refused', () => {
    const { place } = setUp()
    const connect = (): Database.Database => {
      renameSync(place.path, `${place.path}.moved`)
      symlinkSync(`${place.path}.moved`, place.path)
      const db = new Database(place.path)
      unlinkSync(place.path)
      renameSync(`${place.path}.moved`, place.path)
      return db
    }
    expect(() => openAt(place, 'Opening it', { connect, prepare: read })).toThrow(refused)
  })
})

it('a look at a file tells what is there without following it', () => {
  const dir = tempDir()
  const place = { root: dir, path: join(dir, 'a/b') }
  expect(() => lookAt(place)).toThrow(/ENOENT/)
  mkdirSync(join(dir, 'a'))
  expect(lookAt(place).file).toBeUndefined()
  symlinkSync('/etc/passwd', place.path)
  expect(lookAt(place).file?.isSymbolicLink()).toBe(true)
  unlinkSync(place.path)
  writeFileSync(place.path, 'abc')
  expect(lookAt(place)).toMatchObject({ realPath: place.path, file: { size: 3n } })
})
