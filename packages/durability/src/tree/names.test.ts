import { blobPaths } from '@nexus/blobs'
import { ACTIVE_SEGMENT, HEADER_FILE, segmentName } from '@nexus/journal'
import { openStorageManager } from '@nexus/storage'
import { describe, expect, it, onTestFinished } from 'vitest'
import { tempDir } from '@nexus/host/testing'
import {
  ACTIVE_SEGMENT_PATH,
  blobDigest,
  blobPath,
  CONVERSATION_PATH,
  databasePath,
  immutableKind,
  isEnginePlace,
  isLocalName,
  isPluginDatabase,
  isSidecarName,
  JOURNAL_HEADER_PATH,
  neverCrosses,
  readRefusal,
  sealedSegmentNumber,
  TIMING_PATH,
  writeRefusal,
} from './names.ts'

const SHA = 'ab'.repeat(32)

describe('the names in a session', () => {
  it('are those that journal, blobs and storage give to their files', () => {
    expect(ACTIVE_SEGMENT_PATH).toBe(`journal/${ACTIVE_SEGMENT}`)
    expect(JOURNAL_HEADER_PATH).toBe(`journal/${HEADER_FILE}`)
    expect(sealedSegmentNumber(`journal/${segmentName(7)}`)).toBe(7)
    expect(blobPath(SHA, 'bin')).toBe(blobPaths('blobs', SHA).bin)
    expect(blobPath(SHA, 'meta')).toBe(blobPaths('blobs', SHA).meta)
    const sessionDir = tempDir()
    const storage = openStorageManager({ sessionDir, storageRoot: sessionDir })
    onTestFinished(() => storage.dispose())
    for (const id of ['nexus.one', 'nexus.agent.sub/researcher', 'x/y/z']) storage.open('session', id)
    const paths = storage.paths('session').map((path) => path.slice(sessionDir.length + 1))
    expect(paths.toSorted()).toEqual(['nexus.agent.sub/researcher', 'nexus.one', 'x/y/z'].map(databasePath))
    expect(paths.every(isPluginDatabase)).toBe(true)
  })

  it.each([
    [`blobs/ab/${SHA}.bin`, 'blob'],
    [`blobs/ab/${SHA}.meta`, 'blob-meta'],
    ['journal/events-007.jsonl.zst', 'segment'],
    [`blobs/cd/${SHA}.bin`, undefined],
    [`files/ab/${SHA}.bin`, undefined],
    ['journal/events.jsonl', undefined],
    ['files/journal/events-007.jsonl.zst', undefined],
  ])('tell of %s what never changes', (path, kind) => {
    expect(immutableKind(path)).toBe(kind)
    expect(blobDigest(path)).toBe(kind === 'blob' ? SHA : undefined)
  })

  it.each(['plugins/store.db', 'plugins/a/b/store.db-wal', 'files/plugins/a/store.db', 'plugins/a/store.dbx'])(
    'take %s for no database of a plugin',
    (path) => {
      expect(isPluginDatabase(path)).toBe(false)
    },
  )
})

describe('the files of the engine', () => {
  it.each([
    'metadata/config-snapshot.yaml',
    'metadata/session.json',
    'journal/events.jsonl',
    'journal/cache/tool/x.json',
    'journal/new',
    'plugins/a/store.db',
    'plugins/a/b/store.db',
    'plugins/a/b/c/store.db-wal',
    `blobs/ab/${SHA}.bin`,
    'blobs',
    'plugins',
    'session.lock',
    'files/.nexus-tmp-1',
  ])('are not for others to write: %s', (path) => {
    expect(writeRefusal(path)).toBeTypeOf('string')
  })

  it.each([
    CONVERSATION_PATH,
    TIMING_PATH,
    'metadata/notes.md',
    'plugins/a/cache.json',
    'files/store.db',
    'files/journal/x',
  ])('leave %s to others', (path) => {
    expect(writeRefusal(path)).toBeUndefined()
    expect(readRefusal(path)).toBeUndefined()
  })

  it('can be read, but for databases and what never leaves the machine', () => {
    expect(readRefusal('metadata/session.json')).toBeUndefined()
    expect(readRefusal('journal/events.jsonl')).toBeUndefined()
    expect(readRefusal('plugins/a/b/store.db')).toBeTypeOf('string')
    expect(readRefusal('session.lock')).toBeTypeOf('string')
  })
})

describe('the places where a link would lead the engine out of the session', () => {
  it.each([
    'journal',
    'plugins',
    'plugins/a',
    'plugins/a/b/store.db',
    'blobs/ab',
    'metadata/session.json',
    CONVERSATION_PATH,
  ])('include %s', (path) => {
    expect(isEnginePlace(path)).toBe(true)
  })

  it.each(['files/x', 'plugins/a/node_modules/x', 'context/notes.md', 'x'])('leave out %s', (path) => {
    expect(isEnginePlace(path)).toBe(false)
  })
})

describe('neverCrosses', () => {
  it.each([
    'session.lock',
    'plugins/p/store.db-wal',
    'plugins/p/store.db-shm',
    'files/data.sqlite-journal',
    'files/DATA.SQLITE3-WAL',
    '.nexus-tmp-0123456789abcdef',
    'files/.nexus-tmp-0123456789abcdef',
    'journal/.nexus-tmp-journal-seal',
    '.nexus-tmp-lock-0123456789abcdef',
    'files/.nexus-tmp-0123456789abcdef/below',
    '.hydrating-s1-0123456789abcdef/files/a',
    '.snapshot-s1-0123456789abcdef/x',
  ])('keeps %s on its machine', (path) => {
    expect(neverCrosses(path)).toBe(true)
  })

  it.each([
    'files/session.lock',
    'files/travel-journal',
    'files/a-wal',
    'store.db-wal/inside-a-directory',
    'plugins/p/store.db',
    'files/.snapshot-s1-0123456789abcdef',
    'files/.hidden',
    'a..b',
    '..c',
  ])('lets %s cross', (path) => {
    expect(neverCrosses(path)).toBe(false)
  })

  it('tells a name of the engine from a sidecar, which only a file can be', () => {
    expect(isLocalName('store.db-wal', false)).toBe(false)
    expect(isSidecarName('store.db-wal')).toBe(true)
    expect(isLocalName('session.lock', true)).toBe(true)
    expect(isLocalName('session.lock', false)).toBe(false)
  })
})
