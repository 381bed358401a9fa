import { describe, expect, it } from 'vitest'
import { isLocalName, isSidecarName, neverCrosses, sessionKeys } from './keys.ts'

describe('sessionKeys', () => {
  it('keeps everything of a session beside its tree, so that nothing of it hydrates into the tree', () => {
    const keys = sessionKeys('s1')
    expect(keys).toEqual({
      tree: 'sessions/s1',
      manifestPrefix: 'sessions/s1.manifest',
      manifest: 'sessions/s1.manifest/manifest.json',
      marker: 'sessions/s1.snapshot.json',
      ownerPrefix: 'sessions/s1.owner',
      owner: 'sessions/s1.owner/owner.json',
    })
    const { tree, ...others } = keys
    for (const key of Object.values(others)) expect(key.startsWith(`${tree}/`)).toBe(false)
  })

  it.each(['../x', 'a/b', '.', '', 'x.manifest', 'x\0y', 'CON', 'a'.repeat(300), '__proto__'])(
    'refuses the id %j before any key exists',
    (id) => {
      expect(() => sessionKeys(id)).toThrowError(expect.objectContaining({ code: 'INVALID_ARGUMENT' }))
    },
  )
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
