import type { Connection } from './connection.ts'

/**
 * Gives back the memory of the pages that a connection has read; they are read again when they are needed.
 *
 * SQLite reserves room for twenty pages with the first one that it reads into an empty cache, which is most of what a small
 * database costs. It does so only where the cache may grow so large: with the first page read while two are allowed, each
 * further page takes its own room.
 */
export function releasePages(db: Connection): void {
  const size = String(db.pragma('cache_size', { simple: true }))
  db.pragma('cache_size = 2')
  try {
    db.pragma('shrink_memory')
    db.pragma('schema_version')
  } finally {
    db.pragma(`cache_size = ${size}`)
  }
}
