import { execFileSync, spawnSync } from 'node:child_process'
import fs from 'node:fs'
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { isInvalidKeyError, objectStoreConfig, silentLogger } from '@nexus/objectstore'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { openFsBackend, type FsBackend } from '../src/driver.ts'
import { engineTempName } from '@nexus/host'
import { createTestBucket, type TestBucket } from './open-bucket.ts'

let test: TestBucket
let backend: FsBackend

beforeAll(async () => {
  test = createTestBucket()
  backend = await test.open()
})

afterAll(() => test.remove())

beforeEach(() => mkdirSync(test.bucket, { recursive: true }))

afterEach(() => {
  for (const name of readdirSync(test.bucket)) fs.rmSync(join(test.bucket, name), { recursive: true })
})

const at = (...names: string[]): string => join(test.bucket, ...names)

function put(key: string, content: string): Promise<void> {
  return backend.put(key, test.file(content))
}

async function get(key: string): Promise<string> {
  const path = test.freshPath()
  await backend.get(key, path)
  return readFileSync(path, 'utf8')
}

async function keys(prefix = ''): Promise<string[]> {
  return (await backend.list(prefix)).map(({ key }) => key).toSorted()
}

describe('objects on disk', () => {
  it('are plain files at their keys, private, with nothing beside them', async () => {
    await put('sessions/s1/files/a b%2Fc.txt', 'x')
    const path = at('sessions', 's1', 'files', 'a b%2Fc.txt')
    expect(readFileSync(path, 'utf8')).toBe('x')
    expect(statSync(path).mode & 0o777).toBe(0o600)
    expect(statSync(dirname(path)).mode & 0o777).toBe(0o700)
    expect(readdirSync(dirname(path))).toEqual(['a b%2Fc.txt'])
    expect(readdirSync(at('\\tmp'))).toEqual([])
  })

  it('keep names of 255 bytes and names with control characters, percent signs and spaces', async () => {
    const awkward = [
      'n'.repeat(255),
      '日'.repeat(85),
      'a\nb',
      'a\rb',
      'a\tb',
      'a\u0004b',
      'a b',
      'a%2Bb',
      'a+b',
      '#?&',
      '.nexus-tmp-x',
      '-rf',
      '~',
    ]
    for (const name of awkward) await put(`d/${name}/${name}`, name)
    expect(await keys('d')).toEqual(awkward.map((name) => `d/${name}/${name}`).toSorted())
    for (const name of awkward) {
      expect(readFileSync(at('d', name, name), 'utf8')).toBe(name)
      expect(await get(`d/${name}/${name}`)).toBe(name)
    }
  })

  it('refuse a name of 256 bytes by its key, before the disk is touched', async () => {
    const key = `d/${'n'.repeat(256)}/f`
    for (const call of [put(key, 'x'), backend.get(key, test.freshPath()), backend.delete(key), backend.list(key)]) {
      const error = await call.then(
        () => undefined,
        (reason: unknown) => reason,
      )
      expect(isInvalidKeyError(error)).toBe(true)
      expect(error).toMatchObject({ key, reason: expect.stringContaining('256 bytes') })
    }
    expect(readdirSync(test.bucket)).toEqual([])
  })

  it('are not written again when they hold the same bytes, and are when one byte differs', async () => {
    const content = 'x'.repeat(3_000_000)
    await put('f', content)
    const { ino } = statSync(at('f'))
    await put('f', content)
    expect(statSync(at('f')).ino).toBe(ino)
    for (const changed of [`${content.slice(1)}y`, `y${content.slice(1)}`, `${content}x`, content.slice(1), '']) {
      await put('f', changed)
      expect(await get('f')).toBe(changed)
      await put('f', content)
    }
    await put('empty', '')
    await put('empty', '')
    expect(await get('empty')).toBe('')
  })

  it('take the configured modes', async () => {
    const shared = await test.open({ file_mode: '0640', directory_mode: '0750' })
    await shared.put('modes/f', test.file('x'))
    expect(statSync(at('modes')).mode & 0o777).toBe(0o750)
    expect(statSync(at('modes', 'f')).mode & 0o777).toBe(0o640)
    await shared.close()
  })
})

describe('an object at the prefix of others', () => {
  it.each([
    ['first', ['a', 'a/b']],
    ['last', ['a/b', 'a']],
  ])('that was stored %s is the only one that is not at its plain path', async (_, order) => {
    for (const key of order) await put(key, `content of ${key}`)
    await put('other', 'x')
    expect(await keys()).toEqual(['a', 'a/b', 'other'])
    expect(await get('a')).toBe('content of a')
    expect(await get('a/b')).toBe('content of a/b')
    expect(readFileSync(at('a', 'b'), 'utf8')).toBe('content of a/b')
    expect(readFileSync(at('\\at-prefix', 'a'), 'utf8')).toBe('content of a')
    expect(existsSync(at('other'))).toBe(true)
  })

  it('is replaced, created, listed with its size and deleted like any other', async () => {
    await put('p/a', '1')
    await put('p/a/b/c', '2')
    await put('p/a', 'three')
    expect(await backend.putIfAbsent('p/a', test.file('x'))).toBe(false)
    expect((await backend.list('p')).map(({ key, size }) => `${key} ${size}`).toSorted()).toEqual([
      'p/a 5',
      'p/a/b/c 1',
    ])
    await backend.delete('p/a')
    expect(await keys()).toEqual(['p/a/b/c'])
    expect(await backend.putIfAbsent('p/a', test.file('new'))).toBe(true)
    expect(await backend.putIfAbsent('p/a', test.file('late'))).toBe(false)
    expect(await get('p/a')).toBe('new')
    await backend.delete('p/a/b/c')
    expect(await get('p/a')).toBe('new')
    expect(await keys('p/a')).toEqual([])
  })

  it('can be at every level at once, with names of 255 bytes', async () => {
    const name = 'x'.repeat(255)
    const nested = [name, `${name}/${name}`, `${name}/${name}/${name}`, `${name}/${name}/${name}/y`]
    for (const key of nested.toReversed()) await put(key, `size ${key.length}`)
    expect(await keys()).toEqual(nested.toSorted())
    for (const key of nested) expect(await get(key)).toBe(`size ${key.length}`)
  })

  it('is read from where an interrupted move has left it', async () => {
    await put('a', 'old')
    mkdirSync(at('\\at-prefix'))
    fs.linkSync(at('a'), at('\\at-prefix', 'a'))
    expect(await keys()).toEqual(['a'])
    await put('a', 'new')
    expect(await get('a')).toBe('new')
    fs.unlinkSync(at('a'))
    expect(await keys()).toEqual(['a'])
    expect(await get('a')).toBe('new')
    expect(await backend.putIfAbsent('a', test.file('x'))).toBe(false)
    await backend.delete('a')
    expect(await keys()).toEqual([])
    await put('a', 'again')
    await put('a/b', 'below')
    expect([await get('a'), await get('a/b')]).toEqual(['again', 'below'])
  })
})

describe('what is not an object', () => {
  it('is neither listed nor read: links, FIFOs and directories', async () => {
    const outside = test.file('secret')
    mkdirSync(at('d', 'real'), { recursive: true })
    symlinkSync(outside, at('d', 'link'))
    symlinkSync(dirname(outside), at('d', 'dir-link'))
    symlinkSync('..', at('d', 'loop'))
    execFileSync('mkfifo', [at('d', 'fifo')])
    await put('d/real/f', 'x')
    expect(await keys()).toEqual(['d/real/f'])
    for (const key of ['d/link', 'd/fifo', 'd/real', `d/dir-link/${outside.split('/').at(-1)}`, 'd/loop/d/real/f']) {
      await expect(backend.get(key, test.freshPath())).rejects.toMatchObject({ code: 'NOT_FOUND', key })
    }
    const destination = test.freshPath()
    await backend.hydrate('d', destination)
    expect(readdirSync(destination, { recursive: true, encoding: 'utf8' }).toSorted()).toEqual(['real', 'real/f'])
  })

  it('is never written through', async () => {
    const outside = test.freshPath()
    mkdirSync(outside)
    symlinkSync(outside, at('d'))
    await expect(put('d/f', 'x')).rejects.toMatchObject({ code: 'PRECONDITION' })
    await expect(backend.putIfAbsent('d/f', test.file('x'))).rejects.toMatchObject({ code: 'PRECONDITION' })
    await backend.delete('d/f')
    expect(readdirSync(outside)).toEqual([])
    const target = test.file('kept')
    symlinkSync(target, at('f'))
    await backend.delete('f')
    await expect(backend.putIfAbsent('f', test.file('x'))).rejects.toMatchObject({ code: 'PRECONDITION' })
    await put('f', 'new')
    expect(readFileSync(target, 'utf8')).toBe('kept')
    expect(await get('f')).toBe('new')
  })

  it('makes hydration fail by name when it looks like an object but can not be one', async () => {
    await put('d/fine', 'x')
    writeFileSync(at('d', 'a\\b'), 'x')
    expect(await keys('d')).toEqual(['d/a\\b', 'd/fine'])
    await expect(backend.hydrate('d', test.freshPath())).rejects.toMatchObject({ code: 'CORRUPT', key: 'd/a\\b' })
    await put('e/fine', 'x')
    await put('e/\ufffd', 'really the replacement character')
    fs.writeFileSync(Buffer.concat([Buffer.from(`${at('e')}/`), Buffer.from([0xff])]), 'not UTF-8')
    expect(await keys('e')).toEqual(['e/fine', 'e/\ufffd'])
    await expect(backend.hydrate('e', test.freshPath())).rejects.toMatchObject({ code: 'CORRUPT' })
    expect(await get('e/\ufffd')).toBe('really the replacement character')
  })

  it('does not make put wait: a FIFO as the local file is refused', async () => {
    const fifo = test.freshPath()
    execFileSync('mkfifo', [fifo])
    await expect(backend.put('f', fifo)).rejects.toMatchObject({ path: fifo, op: 'put', key: 'f' })
    expect(await keys()).toEqual([])
  })
})

describe('temporary files', () => {
  it('are never listed, and those of dead processes are removed', async () => {
    mkdirSync(at('\\tmp'))
    const dead = spawnSync('true').pid.toString(36)
    const scope = engineTempName().split('-').slice(0, 3).join('-')
    const names = [
      `${scope}-${dead}-00000000000a0`,
      `${scope}-${process.ppid.toString(36)}-00000000000a1`,
      `.nexus-tmp-00000000-${dead}-00000000000a2`,
      'notes.txt',
    ]
    for (const name of names) writeFileSync(at('\\tmp', name), 'x')
    const old = at('\\tmp', '.nexus-tmp-00000000-1-00000000000a3')
    writeFileSync(old, 'x')
    fs.utimesSync(old, Date.now() / 1000 - 90_000, Date.now() / 1000 - 90_000)
    expect(await keys()).toEqual([])
    const lines: unknown[] = []
    const info = (fields: unknown): void => void lines.push(fields)
    // The first call of a worker looks for them.
    const other = await test.open({ fsync: false }, {}, { ...silentLogger, info })
    await other.list('')
    await expect.poll(() => readdirSync(at('\\tmp')).toSorted()).toEqual(names.slice(1).toSorted())
    await expect.poll(() => lines).toEqual([{ bucket: test.bucket, files: 2 }])
    await other.close()
  })
})

describe('a bucket that goes away', () => {
  it('is an outage, never a store without objects, and is not made again', async () => {
    await put('s/f', 'x')
    const moved = `${test.bucket}-moved`
    renameSync(test.bucket, moved)
    try {
      const calls = [
        () => backend.get('s/f', test.freshPath()),
        () => backend.list('s'),
        () => backend.hydrate('s', test.freshPath()),
        () => backend.put('s/f', test.file('y')),
        () => backend.putIfAbsent('s/g', test.file('y')),
        () => backend.delete('s/f'),
        () => backend.flush(),
      ]
      for (const call of calls) await expect(call()).rejects.toMatchObject({ code: 'UNAVAILABLE' })
      expect(existsSync(test.bucket)).toBe(false)
    } finally {
      renameSync(moved, test.bucket)
    }
    expect(await get('s/f')).toBe('x')
  })

  it('must exist when it is opened', async () => {
    const missing = `${test.bucket}/none`
    for (const path of [missing, test.file('a file')]) {
      const config = objectStoreConfig({ backend: 'fs', bucket: path })
      await expect(openFsBackend(config, { logger: silentLogger })).rejects.toMatchObject({
        code: 'INVALID_ARGUMENT',
        key: 'core.object_store.bucket',
      })
    }
    expect(existsSync(missing)).toBe(false)
    await expect(test.open({ require_mount: true })).rejects.toMatchObject({ key: 'core.object_store.bucket' })
  })
})

describe('a closed backend', () => {
  it('refuses calls, and leaves the others on its bucket alone', async () => {
    const [one, two] = [await test.open(), await test.open()]
    await one.close()
    await one.close()
    await expect(one.list('')).rejects.toMatchObject({ code: 'CLOSED' })
    expect(await two.list('')).toEqual([])
  })
})

describe('the time of an object', () => {
  it('is when it got its name, also where its bytes were written long before: a host may stand still in between', async () => {
    await put('s/late', 'written before a freeze')
    fs.utimesSync(at('s', 'late'), new Date(0), new Date(0))
    const before = Date.now()
    const [object] = await backend.list('s')
    expect(Math.abs((object?.modTime?.getTime() ?? 0) - before)).toBeLessThan(60_000)
  })
})
