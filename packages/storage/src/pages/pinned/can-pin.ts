import { mkdtempSync, rmSync } from 'node:fs'
import { endianness, tmpdir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import Database from 'better-sqlite3'
import { findLockedFiles } from './locked-files.ts'
import { readWalIndex } from './wal-index.ts'

const OLDEST_SQLITE = [3, 51]

let answer: boolean | undefined

/**
 * Whether databases can be captured page by page here: Linux, SQLite 3.51 or newer, and a `/proc` that shows the locks of a
 * descriptor, which sandboxes may not. Found out once, on a database of its own in the temporary directory.
 */
export function canPin(): boolean {
  return (answer ??= process.platform === 'linux' && endianness() === 'LE' && tryPinning())
}

function tryPinning(): boolean {
  let dir: string | undefined
  try {
    dir = mkdtempSync(join(tmpdir(), 'nexus-pages-'))
    const path = join(dir, 'probe.db')
    const db = new Database(path)
    try {
      const version = String(db.prepare('SELECT sqlite_version()').pluck().get())
      if (!isNewEnough(version)) return false
      db.pragma('journal_mode = WAL')
      db.pragma('synchronous = OFF')
      db.exec('CREATE TABLE probe (x)')
      const files = findLockedFiles(path)
      return typeof files === 'object' && readWalIndex(files.shm)?.lastFrame !== undefined
    } finally {
      db.close()
    }
  } catch {
    // No temporary directory or no descriptor left: copies need fewer of both.
    return false
  } finally {
    if (dir !== undefined) rmSync(dir, { recursive: true, force: true })
  }
}

/** Whether a version of SQLite, such as `3.51.0`, reports and orders its WAL index as captures need it. */
export function isNewEnough(version: string): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  const [oldestMajor = 0, oldestMinor = 0] = OLDEST_SQLITE
  return major > oldestMajor || (major === oldestMajor && minor >= oldestMinor)
}
