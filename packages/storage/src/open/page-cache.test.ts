import { describe, expect, it } from 'vitest'
import { fill } from '../../test/sample-database.ts'
import { tempManager } from '../../test/temp-dir.ts'

describe('giving back the memory of pages', () => {
  it('leaves the size that a plugin gave its cache, and every row', () => {
    const storage = tempManager({ cacheSizeKb: 512 }).manager.open('session', 'p')
    expect(storage.db.pragma('cache_size', { simple: true })).toBe(-512)
    storage.db.pragma('cache_size = 77')
    fill(storage.db, 500)
    storage.releaseMemory()
    expect(storage.db.pragma('cache_size', { simple: true })).toBe(77)
    expect(storage.db.pragma('integrity_check', { simple: true })).toBe('ok')
  })

  it('leaves alone a connection in a transaction, and one with an open iterator', () => {
    const storage = tempManager().manager.open('session', 'p')
    storage.put('a', '1')
    storage.tx((db) => {
      storage.put('a', '2')
      storage.releaseMemory()
      expect(db.inTransaction).toBe(true)
    })
    const rows = storage.db.prepare('SELECT key FROM kv').iterate()
    rows.next()
    storage.releaseMemory()
    rows.return?.()
    expect(storage.get('a')?.toString()).toBe('2')
  })
})
