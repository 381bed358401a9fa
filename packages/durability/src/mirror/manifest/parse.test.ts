import { describe, expect, it } from 'vitest'
import { manifestSteps, parseManifest } from './parse.ts'
import { Slices } from '@nexus/host'
import { totalBytes } from '../../tree/committed.ts'
import { manifestPieces, serializeManifest, type Manifest } from './manifest.ts'
import { pathRecord } from '../../tree/committed.ts'

const SHA = 'a'.repeat(64)
const entry = (fields: object = {}): object => ({ size: 1, mode: 0o600, mtime_ns: '1', sha256: SHA, ...fields })

function raw(fields: object = {}): Record<string, unknown> {
  return {
    _schema_version: 2,
    session_id: 's1',
    generation: 3,
    nonce: 'n',
    instance_id: 'i',
    completed_at: '2026-01-01T00:00:00Z',
    key_prefix: 'sessions/s1',
    objects: ['a'],
    entries: { a: entry() },
    dirs: {},
    links: {},
    journal: { last_seq: 7 },
    unstored: [],
    ...fields,
  }
}

function withPath(path: string): string {
  return JSON.stringify(raw({ objects: [path], entries: { [path]: entry() } }))
}

const parse = (fields: object | string): Manifest =>
  parseManifest(typeof fields === 'string' ? fields : JSON.stringify(fields), 's1')

function failure(fields: object | string | Uint8Array): unknown {
  try {
    parseManifest(typeof fields === 'string' || fields instanceof Uint8Array ? fields : JSON.stringify(fields), 's1')
  } catch (error) {
    return error
  }
  return undefined
}

describe('parseManifest', () => {
  it('reads what serializeManifest wrote', () => {
    const manifest = parse(raw({ mixed_from: { generation: 2, paths: ['a'] }, unstored: ['x\\y', 'files/\\xff'] }))
    expect(parseManifest(serializeManifest(manifest), 's1')).toEqual(manifest)
    expect(parseManifest(Buffer.from(serializeManifest(manifest)), 's1')).toEqual(manifest)
  })

  it.each(['../x', '/etc/x', 'a/../../x', 'C:\\x', 'a\0b', '', '.', 'a//b', 'a/', './a', 'a/..', '\ud800'])(
    'refuses the path %j, naming the manifest',
    (path) => {
      expect(failure(withPath(path))).toMatchObject({ code: 'CORRUPT', key: 'sessions/s1.manifest/manifest.json' })
      expect(failure(raw({ dirs: { [path]: { mode: 0o700 } } }))).toMatchObject({ code: 'CORRUPT' })
      expect(failure(raw({ links: { [path]: { target: 'x' } } }))).toMatchObject({ code: 'CORRUPT' })
    },
  )

  it.each([
    'a..b',
    '..c',
    'c..',
    '...',
    'a b',
    'a+b',
    'a%2Bb',
    'a\nb',
    '-',
    'C:x',
    '__proto__',
    'constructor',
    'é',
    'é',
  ])('takes the honest path %j', (path) => {
    const manifest = parse(withPath(path))
    expect(manifest.objects).toEqual([path])
    expect(manifest.entries[path]).toMatchObject({ size: 1 })
    expect(parseManifest(serializeManifest(manifest), 's1').entries[path]).toMatchObject({ size: 1 })
  })

  it('answers undefined, and not a method of Object, for a path that is not there', () => {
    expect(parse(raw()).entries['constructor']).toBeUndefined()
    expect(parse(raw()).links['__proto__']).toBeUndefined()
    expect(({} as Record<string, unknown>)['size']).toBeUndefined()
  })

  it.each([
    ['a file that is a directory too', { objects: ['a', 'a/b'], entries: { a: entry(), 'a/b': entry() } }],
    ['a file below a link', { objects: ['l/a'], entries: { 'l/a': entry() }, links: { l: { target: '/etc' } } }],
    ['a link below a link', { links: { l: { target: '/etc' }, 'l/m': { target: 'x' } } }],
    ['a directory below a link', { links: { l: { target: '/etc' } }, dirs: { 'l/d': { mode: 0o700 } } }],
    ['a directory below a file', { dirs: { 'a/d': { mode: 0o700 } } }],
    ['a file that is a link too', { links: { a: { target: 'x' } } }],
    ['a directory that is a file too', { dirs: { a: { mode: 0o700 } } }],
    ['a directory that is a link too', { dirs: { l: { mode: 0o700 } }, links: { l: { target: 'x' } } }],
    ['a path twice', { objects: ['a', 'a'] }],
    ['an object without an entry', { objects: ['a', 'b'] }],
    ['an entry without an object', { entries: { a: entry(), b: entry() } }],
    ['another session', { session_id: 's2' }],
    ['a negative size', { entries: { a: entry({ size: -1 }) } }],
    ['a broken size', { entries: { a: entry({ size: 1.5 }) } }],
    ['a number for a time', { entries: { a: entry({ mtime_ns: 1 }) } }],
    ['a short digest', { entries: { a: entry({ sha256: 'abc' }) } }],
    ['an upper-case digest', { entries: { a: entry({ sha256: 'A'.repeat(64) }) } }],
    ['a link without text', { links: { l: { target: '' } } }],
    ['a link with a NUL', { links: { l: { target: 'a\0b' } } }],
    ['no generation', { generation: undefined }],
    ['a generation as text', { generation: '3' }],
    ['no nonce', { nonce: undefined }],
    ['no journal', { journal: undefined }],
    ['objects that are no list', { objects: { a: 1 } }],
    ['an object that is no text', { objects: [1] }],
    ['entries that are a list', { entries: [] }],
    ['no unstored list', { unstored: undefined }],
    ['a bad mixed_from', { mixed_from: { generation: 1 } }],
  ])('refuses %s', (_what, fields) => {
    expect(failure(raw(fields))).toMatchObject({ code: 'CORRUPT', key: 'sessions/s1.manifest/manifest.json' })
  })

  it('refuses a manifest cut at any byte, an empty one, and bytes that are not UTF-8', () => {
    const whole = serializeManifest(parse(raw())).trimEnd()
    for (let length = 0; length < whole.length; length++) {
      expect(failure(whole.slice(0, length))).toMatchObject({ code: 'CORRUPT' })
    }
    expect(failure(Buffer.from([0xff, 0xfe]))).toMatchObject({ code: 'CORRUPT' })
    for (const other of ['null', '[]', '1', '"x"']) expect(failure(other)).toMatchObject({ code: 'CORRUPT' })
  })

  it('calls a manifest without a schema version damaged', () => {
    expect(failure(raw({ _schema_version: undefined }))).toMatchObject({ code: 'CORRUPT' })
  })

  it.each([0, 3, 99, '2', null])('refuses schema version %j and names both versions', (version) => {
    expect(failure(raw({ _schema_version: version }))).toMatchObject({
      code: 'UNSUPPORTED',
      key: 'sessions/s1.manifest/manifest.json',
      message: expect.stringMatching(/schema version .*reads 1 to 2/s),
    })
  })

  it('takes setuid, setgid and sticky away', () => {
    const manifest = parse(raw({ entries: { a: entry({ mode: 0o6755 }) }, dirs: { d: { mode: 0o1777 } } }))
    expect(manifest.entries['a']?.mode).toBe(0o755)
    expect(manifest.dirs['d']?.mode).toBe(0o777)
  })

  it('reads version 1, which names paths and nothing else', () => {
    const manifest = parse({ _schema_version: 1, session_id: 's1', generation: 4, objects: ['b', 'a'] })
    expect(manifest).toMatchObject({ generation: 4, nonce: '', objects: ['a', 'b'], journal: { last_seq: 0 } })
    expect(failure({ _schema_version: 1, session_id: 's1', generation: 4, objects: ['../a'] })).toMatchObject({
      code: 'CORRUPT',
    })
  })

  it('ignores fields of a later build', () => {
    expect(parse(raw({ extra: 1, entries: { a: entry({ more: true }) } })).objects).toEqual(['a'])
  })
})

describe('a manifest of many objects', () => {
  const many = (count: number, path: (n: number) => string): string =>
    JSON.stringify(
      raw({
        objects: Array.from({ length: count }, (_, n) => path(n)),
        entries: Object.fromEntries(Array.from({ length: count }, (_, n) => [path(n), entry()])),
      }),
    )

  it('is read in steps, so that others get the event loop in between', () => {
    const text = many(30_000, (n) => `files/${String(n).padStart(6, '0')}`)
    const steps = manifestSteps(Buffer.from(text), 's1')
    let count = 0
    let step = steps.next()
    for (; step.done !== true; step = steps.next()) count++
    expect(step.value.objects).toHaveLength(30_000)
    expect(count).toBeGreaterThan(30_000 / 1_000 + text.length / (128 * 1024))
  })

  it('is refused when it would have to be sorted; a small one is sorted', () => {
    expect(failure(many(30_000, (n) => `files/${n}`))).toMatchObject({ code: 'CORRUPT' })
    expect(parse(many(11, (n) => `files/${n}`)).objects[2]).toBe('files/10')
  })

  it('is refused with a generation that no commit can follow', () => {
    expect(failure(raw({ generation: Number.MAX_SAFE_INTEGER }))).toMatchObject({ code: 'CORRUPT' })
    expect(parse(raw({ generation: Number.MAX_SAFE_INTEGER - 1 })).generation).toBe(Number.MAX_SAFE_INTEGER - 1)
  })
})

describe('serializeManifest', () => {
  it('says who committed within the first KiB, whatever follows', () => {
    const manifest = parse(raw())
    manifest.mixed_from = { generation: 1, paths: Array.from({ length: 5000 }, (_, n) => `file-${n}`) }
    const head = serializeManifest(manifest).slice(0, 1024)
    expect(head).toMatch(/^\{"_schema_version":2,.*"nonce":"n".*,"objects":\[/)
  })

  it('writes many entries in bounded pieces that join to the same JSON', async () => {
    const manifest = parse(raw())
    manifest.objects = Array.from({ length: 2500 }, (_, n) => `f${String(n).padStart(5, '0')}`)
    manifest.entries = pathRecord()
    for (const path of manifest.objects) manifest.entries[path] = { size: 2, mode: 0o600, mtime_ns: '5', sha256: SHA }
    const pieces = [...manifestPieces(manifest)]
    expect(Math.max(...pieces.map((piece) => piece.length))).toBeLessThan(200_000)
    expect(parseManifest(pieces.join(''), 's1')).toEqual(manifest)
    expect(await totalBytes(manifest, new Slices())).toBe(5000)
  })
})
