import { describe, expect, it } from 'vitest'
import { digestOf, encodeChunk } from '../../src/versioned/format/bytes/chunk.ts'
import { decodeCommit, decodeHead, encodeHead } from '../../src/versioned/format/commit-object.ts'
import type { CommitHeader } from '../../src/versioned/format/header.ts'
import type { FileEntry, IndexEntry } from '../../src/versioned/format/index-entry.ts'
import type { PageRef } from '../../src/versioned/format/inner-page.ts'
import { compress } from '../../src/versioned/format/bytes/zstd.ts'
import { addPages, buildCommit, ChunkPile, plainHeader } from './build-commit.ts'
import { readTree } from './read-tree.ts'

const OBJECT = 'commits/00000000000000000/001'
const EXPECTED = { object: OBJECT, sessionId: 's', generation: 1 }

function corrupt(text: string): unknown {
  return expect.objectContaining({ code: 'CORRUPT', message: expect.stringContaining(text) })
}

/** A commit with these pages, and a file of one byte as often as it is asked for. */
function commitOf(
  pagesOf: (file: (path: string, fields?: Partial<FileEntry>) => FileEntry) => IndexEntry[][],
  fields: (header: CommitHeader) => Partial<CommitHeader> = () => ({}),
): Buffer {
  const body = new ChunkPile(1)
  const ref = body.add(Buffer.from('x'))
  const file = (path: string, more: Partial<FileEntry> = {}): FileEntry => {
    return { type: 'file', path, mode: 0o600, mtimeNs: 0n, size: 1, chunkSize: 4096, refs: [ref], ...more }
  }
  const pages = pagesOf(file)
  const before = body.bytes.length
  const index = { depth: 1 as const, pages: addPages(body, pages) }
  const entries = pages.flat()
  const files = entries.filter(({ type }) => type === 'file').length
  const totals = { files, dirs: 0, links: entries.filter(({ type }) => type === 'link').length, bytes: files }
  const header = plainHeader({ index, totals })
  return buildCommit({ ...header, ...fields(header) }, body, body.bytes.length - before)
}

const link = (path: string, target = 'elsewhere'): IndexEntry => ({ type: 'link', path, target })

describe('a hostile tree', () => {
  it('is told from an honest one', () => {
    const commit = commitOf((file) => [[file('a'), file('a-b'), link('a..b'), file('d/..c')], [file('e/f')]])
    expect(readTree(commit, {}).entries).toHaveLength(5)
  })

  it.each(['../x', '/etc/x', 'a/../../x', 'a\\b', 'a\0b', 'a//b', './a', ''])('can not name %j', (path) => {
    expect(() =>
      readTree(
        commitOf((file) => [[file(path)]]),
        {},
      ),
    ).toThrow(corrupt('it names'))
  })

  it.each<[string, string, (file: (path: string) => FileEntry) => IndexEntry[][]]>([
    ['a file below a link', 'lies below "a"', (file) => [[link('a'), file('a/b')]]],
    ['a file below a file, others between them', 'lies below "a"', (file) => [[file('a'), file('a-'), file('a/b')]]],
    ['a file below one of another page', 'lies below "a"', (file) => [[file('a')], [file('a/b/c')]]],
    ['a directory below a link', 'lies below "a"', () => [[link('a'), { type: 'dir', path: 'a/b', mode: 0o700 }]]],
    ['one path as two things', 'is not in order', (file) => [[file('a'), link('a')]]],
    ['paths out of order', 'is not in order', (file) => [[file('b'), file('a')]]],
    ['a link to nowhere', 'leads to no path', () => [[link('a', '')]]],
    ['a link with a NUL', 'leads to no path', () => [[link('a', 'b\0c')]]],
    ['chunks of no file', 'which is not the next', (file) => [[{ ...file('a'), type: 'more', first: 64 }]]],
  ])('can not hold %s', (_, why, pages) => {
    expect(() => readTree(commitOf(pages), {})).toThrow(corrupt(why))
  })

  it('can not repeat a path on two pages', () => {
    const twice = commitOf((file) => [
      [file('a'), file('b')],
      [file('b'), file('c')],
    ])
    expect(() => readTree(twice, {})).toThrow(corrupt('is on the wrong page'))
  })

  it.each<[string, string, Partial<FileEntry>]>([
    ['more bytes than it has chunks', 'has 4097 bytes and 1 chunks', { size: 4097 }],
    ['the largest size there is', 'has 9007199254740991 bytes and 1 chunks', { size: Number.MAX_SAFE_INTEGER }],
    ['no bytes, and a chunk', 'has 0 bytes and 1 chunks', { size: 0 }],
    ['a chunk size of 1', 'chunks of 1 bytes', { chunkSize: 1 }],
    ['a chunk size that is no power of two', 'chunks of 5000 bytes', { chunkSize: 5000 }],
    ['a chunk size beyond a mebibyte', 'chunks of 2097152 bytes', { chunkSize: 2 ** 21 }],
  ])('can not give a file %s', (_, why, fields) => {
    expect(() =>
      readTree(
        commitOf((file) => [[file('a', fields)]]),
        {},
      ),
    ).toThrow(corrupt(why))
  })

  it('can not leave out chunks of a file that goes on', () => {
    const commit = commitOf((file) => {
      const [ref] = file('a').refs
      const refs = Array.from({ length: 64 }, () => ({ ...(ref as FileEntry['refs'][0]), codec: 'zstd' as const }))
      return [[file('a', { size: 4096 * 65, refs }), file('b')]]
    })
    expect(() => readTree(commit, {})).toThrow(corrupt('"a" lacks chunks'))
  })

  it.each([
    ['an object that is not listed', { n: 9 }, 'which it does not list'],
    ['bytes behind the end', { offset: 1_000_000 }, 'it refers to 1 bytes from 1000000'],
    ['the largest offset there is', { offset: Number.MAX_SAFE_INTEGER }, 'it refers to 1 bytes from'],
  ])('can not refer to %s', (_, fields, why) => {
    const commit = commitOf((file) => [[file('a', { refs: file('a').refs.map((ref) => ({ ...ref, ...fields })) })]])
    expect(() => readTree(commit, {})).toThrow(corrupt(why))
  })

  it('can not claim another sum than it has', () => {
    const commit = commitOf(
      (file) => [[file('a')]],
      ({ totals }) => ({ totals: { ...totals, bytes: 2 } }),
    )
    expect(() => readTree(commit, {})).toThrow(corrupt('its tree has 1 bytes, and should have 2'))
  })

  it('can not hold ten million entries, and none is read to find out', () => {
    const commit = commitOf(
      (file) => [[file('a')]],
      ({ index }) => ({
        index: { depth: 1, pages: index.pages.map((page) => ({ ...page, entries: 10_000_000 })) },
      }),
    )
    expect(() => decodeCommit(commit, EXPECTED)).toThrow(corrupt('its index has 10000000 entries'))
  })

  it('can not have a page with another number of entries than is listed', () => {
    const commit = commitOf(
      (file) => [[file('a')]],
      ({ index }) => ({
        index: { depth: 1, pages: index.pages.map((page) => ({ ...page, entries: 2 })) },
      }),
    )
    expect(() => readTree(commit, {})).toThrow(corrupt('it has 1 entries in the place of 2'))
  })
})

describe('a bomb', () => {
  const bomb = compress(Buffer.alloc(64 * 1024 * 1024))

  it('in the place of a header is refused before it is expanded', () => {
    const bytes = Buffer.concat([Buffer.from('NXC1'), digestOf(bomb), bomb])
    expect(() => decodeHead(bytes, EXPECTED)).toThrow(corrupt('no zstd frame of a size'))
  })

  it('in the place of a page or a chunk is refused before it is expanded', () => {
    const packed = { digest: digestOf(bomb), stored: bomb, codec: 'zstd' as const }
    const body = new ChunkPile(1)
    const ref = body.put(packed)
    const asPage = { depth: 1 as const, pages: [{ from: '', entries: 1, ...ref }] }
    const commit = buildCommit(plainHeader({ index: asPage }), body, body.bytes.length)
    expect(() => readTree(commit, {})).toThrow(corrupt('no zstd frame of a size that a page has'))
    const asChunk = commitOf(
      (file) => [[file('a', { size: 4096, refs: [{ ...ref, length: 4095 }] })]],
      () => ({
        totals: { files: 1, dirs: 0, links: 0, bytes: 4096 },
      }),
    )
    expect(() => readTree(asChunk, {})).toThrow(expect.objectContaining({ code: 'CORRUPT' }))
  })
})

describe('the header of something else', () => {
  const headed = (fields: object): Buffer => encodeHead({ ...plainHeader(), ...fields }).bytes

  it('is refused with both formats where it is of another format', () => {
    const error = expect.objectContaining({
      code: 'UNSUPPORTED',
      key: OBJECT,
      message: expect.stringMatching(/format 2, and this build reads 1/),
    })
    expect(() => decodeHead(headed({ format: 2, session_id: 5 }), EXPECTED)).toThrow(error)
  })

  it.each<[string, object, string]>([
    ['another session', { session_id: 'S' }, 'it belongs to "S"'],
    [
      'another generation',
      { generation: 2, parent: { generation: 1, nonce: 'n', header_sha256: 'a'.repeat(64) } },
      'it is generation 2',
    ],
    ['no parent although it is not the first', { generation: 2 }, 'its parent is not the generation before'],
    ['a kind that does not exist', { kind: 'guess' }, 'it is of kind "guess"'],
    ['a number that is not given yet', { next_n: 1 }, 'its number is 1'],
    ['itself among its packs', { packs: [pack(1)] }, 'it lists pack 1 out of order'],
    ['a pack twice', { next_n: 9, packs: [pack(3), pack(3)] }, 'it lists pack 3 out of order'],
    ['an object of another session', { next_n: 9, packs: [{ ...pack(3), name: '../other.v/packs/x' }] }, 'name is'],
    ['more live bytes than an object has', { next_n: 9, packs: [{ ...pack(3), live: 101 }] }, 'has 101 live bytes'],
    ['a size that is no number', { next_n: 9, packs: [{ ...pack(3), size: -1 }] }, 'size is -1'],
    ['pages out of order', { index: { depth: 1, pages: [page(''), page('')] } }, 'the page from "" is out of order'],
    [
      'a first page that leaves out keys',
      { index: { depth: 1, pages: [page('b')] } },
      'the page from "b" is out of order',
    ],
    ['an index without end', { index: { depth: 3, pages: [] } }, 'its index is 3 deep'],
    [
      'more pages than are listed at one level',
      { index: { depth: 1, pages: Array.from({ length: 1001 }, () => page('')) } },
      'pages has 1001 items',
    ],
    ['half a character', { turn_id: '\ud83d' }, 'turn_id is'],
    ['a time that is none', { completed_at: 'yesterday' }, 'completed_at is "yesterday"'],
  ])('is refused where it has %s', (_, fields, why) => {
    expect(() => decodeHead(headed(fields), EXPECTED)).toThrow(corrupt(why))
  })

  function pack(n: number): object {
    return { n, name: 'packs/00000000000000000001-00112233445566aa-0', size: 100, base: 0, live: 100 }
  }

  function page(from: string): PageRef {
    const { stored, ...chunk } = encodeChunk(Buffer.from(from), digestOf(Buffer.from(from)))
    return { from, entries: 1, n: 1, offset: 0, length: stored.length + 1, ...chunk }
  }
})
