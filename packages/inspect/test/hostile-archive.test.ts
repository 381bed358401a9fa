import { createHash } from 'node:crypto'
import { once } from 'node:events'
import {
  createWriteStream,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import type { Writable } from 'node:stream'
import { tempDir } from '@nexus/host/testing'
import { pack, type Header } from 'tar-stream'
import { beforeEach, describe, expect, it } from 'vitest'
import { compress, CompressStream, decompress } from 'zstd-napi'
import { importSession } from '../src/index.ts'

type Fields = Record<string, unknown>
type Item = [header: Partial<Header> & { name: string }, body?: string | undefined]

const META = JSON.stringify({ id: 's1', started_at: '2026-11-30T10:00:00.000Z', status: 'ended' })
const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex')
const entry = (text: string): Fields => ({ size: text.length, mode: 0o600, mtime_ns: '1000', sha256: sha256(text) })

/** The manifest of an archive with these files, as an export writes it. */
function manifestOf(files: Record<string, string>, more: Fields = {}): Fields {
  return {
    _schema_version: 2,
    session_id: 's1',
    generation: 0,
    nonce: '',
    instance_id: '',
    completed_at: '2026-11-30T10:00:00.000Z',
    key_prefix: '',
    journal: { last_seq: 0 },
    objects: Object.keys(files).toSorted(),
    entries: Object.fromEntries(Object.entries(files).map(([path, text]) => [path, entry(text)])),
    dirs: {},
    links: {},
    unstored: [],
    ...more,
  }
}

function trailerOf(manifest: string, files: Record<string, string>): string {
  const bytes = Object.values(files).reduce((sum, text) => sum + text.length, 0)
  const fields = { _schema_version: 1, manifest_sha256: sha256(manifest), files: Object.keys(files).length, bytes }
  return `${JSON.stringify(fields)}\n`
}

const FILES = { 'files/a': 'content of a', 'files/b': 'content of b', 'metadata/session.json': META }

/** The items of a sound archive. */
function soundItems(files: Record<string, string> = FILES, more: Fields = {}): Item[] {
  const manifest = JSON.stringify(manifestOf(files, more))
  return [
    [{ name: 'manifest.json' }, manifest],
    ...Object.keys(files)
      .toSorted()
      .map((path): Item => [{ name: `session/${path}` }, files[path]]),
    [{ name: 'trailer.json' }, trailerOf(manifest, files)],
  ]
}

async function writeTar(path: string, items: readonly Item[]): Promise<void> {
  const tar = pack()
  const written = pipeline(tar as never, new CompressStream(), createWriteStream(path))
  for (const [header, body] of items) {
    const at = tar.entry({ type: 'file', size: body?.length ?? 0, mode: 0o600, ...header }) as unknown as Writable
    at.end(body)
    if (body !== undefined) await once(at, 'finish')
  }
  tar.finalize()
  await written
}

let root = ''
let archive = ''
beforeEach(() => {
  root = tempDir()
  archive = join(tempDir(), 'archive.tar.zst')
})

/** Refused, with what is wrong in the message, and nothing is left at the place of the sessions. */
async function expectRefused(message: string | RegExp, from = archive): Promise<void> {
  await expect(importSession(from, { sessionsRoot: root })).rejects.toMatchObject({
    code: 'CORRUPT',
    message: expect.stringMatching(message) as string,
  })
  expect(readdirSync(root)).toEqual([])
}

it('is taken when nothing is wrong with it', async () => {
  await writeTar(archive, soundItems())
  expect(await importSession(archive, { sessionsRoot: root })).toMatchObject({ id: 's1', files: 3 })
})

describe('a list of files is refused', () => {
  it.each([
    ['a path that leaves the session', { '../a': 'x' }, {}, 'names'],
    ['an absolute path', { '/etc/a': 'x' }, {}, 'names'],
    ['a path with a backslash', { 'a\\..\\b': 'x' }, {}, 'names'],
    ['a path with a NUL', { 'a\0b': 'x' }, {}, 'names'],
    ['a file below a file', { 'files/a/b': 'x' }, {}, "can't both exist"],
    ['a file below a link', {}, { links: { files: { target: '/etc' } } }, "can't both exist"],
    ['a link where the engine writes', {}, { links: { journal: { target: '/etc' } } }, 'the engine keeps'],
    ['a link where the engine writes a file', {}, { links: { 'metadata/timing.jsonl': { target: '/etc' } } }, 'keeps'],
    ['a lock', { 'session.lock': '{}' }, {}, 'never leaves'],
    ['a record of attempts', { 'session.record.jsonl': '{}' }, {}, 'never leaves'],
    ['a sidecar', { 'plugins/p/store.db-wal': 'x' }, {}, 'never leaves'],
    ['a staging directory', {}, { dirs: { '.hydrating-s1-0123456789abcdef': { mode: 448 } } }, 'never leaves'],
    [
      'a negative size',
      {},
      { entries: { ...(manifestOf(FILES)['entries'] as Fields), 'files/a': { ...entry('x'), size: -1 } } },
      'bad size',
    ],
    [
      'sizes beyond counting',
      {},
      { entries: { ...(manifestOf(FILES)['entries'] as Fields), 'files/a': { ...entry('x'), size: 2 ** 53 - 1 } } },
      /sizes|disk|bytes/,
    ],
    ['a file twice', {}, { objects: ['files/a', 'files/a', 'files/b', 'metadata/session.json'] }, 'twice'],
    ['another session', {}, { session_id: '../s1' }, 'names no session'],
    ['no digests', {}, { _schema_version: 1 }, 'no digests'],
  ])('for %s', async (_what, files, more, message) => {
    await writeTar(archive, soundItems({ ...FILES, ...files }, more))
    await expectRefused(message)
  })

  it('for what is no session', async () => {
    await writeTar(archive, soundItems({ 'files/a': 'x' }))
    await expectRefused('no metadata/session.json')
  })
})

describe('an entry is refused', () => {
  const cases: [string, (items: Item[]) => Item[], string | RegExp][] = [
    ['that is not in the list', (items) => items.toSpliced(1, 0, [{ name: 'session/files/0' }, 'x']), 'where'],
    ['with a path of its own', (items) => items.with(1, [{ name: '../../evil' }, FILES['files/a']]), 'where'],
    ['out of order', (items) => items.with(1, items[2] as Item).with(2, items[1] as Item), 'where'],
    [
      'before the list',
      (items) => items.toSpliced(0, 1).toSpliced(1, 0, items[0] as Item),
      'where manifest.json must be',
    ],
    ['given twice', (items) => items.toSpliced(1, 0, items[1] as Item), 'where'],
    ['left out', (items) => items.toSpliced(2, 1), 'where'],
    [
      'that is longer than the list says',
      (items) => items.with(1, [{ name: 'session/files/a' }, 'x'.repeat(99)]),
      'must have',
    ],
    ['of other content', (items) => items.with(1, [{ name: 'session/files/a' }, 'CONTENT OF A']), 'digest'],
    ...(['symlink', 'link', 'fifo', 'block-device', 'character-device', 'directory'] as const).map(
      (type): [string, (items: Item[]) => Item[], string] => [
        `that is a ${type}`,
        (items) => items.with(1, [{ name: 'session/files/a', type, linkname: '/etc/passwd', size: 0 }]),
        'must be a file',
      ],
    ),
    ['after the end', (items) => [...items, [{ name: 'session/files/z' }, 'x']], 'after its end'],
    ['without an end', (items) => items.slice(0, -1), 'ends before'],
    ['with an end of something else', (items) => [...items.slice(0, -1), [{ name: 'trailer.json' }, '{}']], 'trailer'],
    ['at all, when there is nothing', () => [], 'ends before'],
  ]
  it.each(cases)('%s', async (_what, change, message) => {
    await writeTar(archive, change(soundItems()))
    await expectRefused(message)
  })

  it('in a PAX record that says another path', async () => {
    const items = soundItems()
    items[1] = [{ name: 'session/files/a', pax: { path: '../../evil' } }, FILES['files/a']]
    await writeTar(archive, items)
    await expectRefused('where')
  })
})

describe('a file is refused', () => {
  it('that is cut anywhere', async () => {
    await writeTar(archive, soundItems())
    const whole = readFileSync(archive)
    for (let length = whole.length - 1; length >= 0; length -= Math.ceil(whole.length / 40)) {
      writeFileSync(archive, whole)
      truncateSync(archive, length)
      await expectRefused('refused')
    }
  })

  it('whose tar is cut anywhere, also in the blocks that end it', async () => {
    await writeTar(archive, soundItems())
    const whole = decompress(readFileSync(archive))
    for (const length of [whole.length - 1, ...Array.from({ length: whole.length / 512 }, (_, at) => at * 512)]) {
      writeFileSync(archive, compress(whole.subarray(0, length)))
      await expectRefused('refused')
    }
  })

  it('with a bit turned anywhere, or becomes the very same session', async () => {
    await writeTar(archive, soundItems())
    const whole = readFileSync(archive)
    for (let at = 0; at < whole.length; at += Math.ceil(whole.length / 60)) {
      const turned = Buffer.from(whole)
      turned[at] = (turned[at] ?? 0) ^ 0x10
      writeFileSync(archive, turned)
      const imported = await importSession(archive, { sessionsRoot: root }).catch((error: { code: string }) => error)
      const outcome = 'code' in imported ? imported.code : readFileSync(join(imported.dir, 'files/a'), 'utf8')
      expect(['CORRUPT', 'UNSUPPORTED', FILES['files/a']]).toContain(outcome)
      rmSync(join(root, 's1'), { recursive: true, force: true })
      expect(readdirSync(root)).toEqual([])
    }
  })

  it('that unpacks to more than it says, long before the disk is full', async () => {
    await writeTar(archive, soundItems())
    const bomb = Buffer.alloc(64 * 2 ** 20)
    writeFileSync(archive, Buffer.concat([compress(decompress(readFileSync(archive))), compress(bomb)]))
    await expectRefused('more than its manifest says')
  })

  it('that is something else', async () => {
    writeFileSync(archive, 'no archive at all')
    await expectRefused("can't be read")
    await expect(importSession(join(root, 'none'), { sessionsRoot: root })).rejects.toMatchObject({ code: 'NOT_FOUND' })
  })

  it('that claims more than the disk holds, before anything is written', async () => {
    const huge = { ...entry('x'), size: 2 ** 52 }
    await writeTar(
      archive,
      soundItems(FILES, { entries: { ...(manifestOf(FILES)['entries'] as Fields), 'files/a': huge } }),
    )
    await expect(importSession(archive, { sessionsRoot: root })).rejects.toMatchObject({ code: 'LOCAL_IO' })
    expect(readdirSync(root)).toEqual([])
  })
})

describe('a directory is refused', () => {
  function sound(): string {
    const dir = join(tempDir(), 'unpacked')
    for (const [{ name }, body] of soundItems()) {
      mkdirSync(join(dir, name, '..'), { recursive: true })
      writeFileSync(join(dir, name), body ?? '')
    }
    return dir
  }

  it.each([
    ['with a link in place of a file', 'session/files/a', (at: string) => symlinkSync('/etc/hostname', at)],
    ['with a link in place of a directory', 'session/files', (at: string) => symlinkSync('/etc', at)],
    ['with another content', 'session/files/a', (at: string) => writeFileSync(at, 'CONTENT OF A')],
    ['with another size', 'session/files/a', (at: string) => writeFileSync(at, 'x')],
    ['without a file', 'session/files/a', () => undefined],
    ['without its trailer', 'trailer.json', () => undefined],
  ])('%s', async (_what, path, put) => {
    const dir = sound()
    rmSync(join(dir, path), { recursive: true })
    put(join(dir, path))
    await expectRefused('refused', dir)
  })

  it('but one with nothing wrong is taken', async () => {
    expect(await importSession(sound(), { sessionsRoot: root })).toMatchObject({ id: 's1' })
  })
})
