import { closeSync, fsync, openSync, readdirSync, type Dirent } from 'node:fs'
import { join } from 'node:path'
import { systemCode } from '@nexus/errors'

/** SQLite syncs its own files when it closes them, and no other code may open one. */
const DATABASE_PART = /\.(?:db|db3|sqlite|sqlite3)(?:-wal|-shm|-journal)?$/

/** A file that we may not read was not written by us; one that vanished needs nothing. */
const HARMLESS: ReadonlySet<string | undefined> = new Set(['EACCES', 'EPERM', 'ENOENT'])

/**
 * Gives every file and directory of a tree to the disk, so that it may be trusted after a power loss. Databases and
 * whatever has a database's sidecar are left out: opening one beside SQLite drops its locks.
 *
 * A file without dirty pages costs a few microseconds.
 *
 * @returns false when the signal fired first, or something could not be synced
 */
export async function syncTree(dir: string, signal: AbortSignal): Promise<boolean> {
  let complete = true
  const pending = [dir]
  for (let at = pending.pop(); at !== undefined; at = pending.pop()) {
    const entries = readEntries(at)
    if (entries === undefined) complete = false
    const names = new Set(entries?.map((entry) => entry.name))
    for (const entry of entries ?? []) {
      if (signal.aborted) return false
      const path = join(at, entry.name)
      if (entry.isDirectory()) pending.push(path)
      if (entry.isFile() && !isDatabase(entry.name, names) && !(await sync(path))) complete = false
    }
    if (!(await sync(at))) complete = false
  }
  return complete
}

function isDatabase(name: string, siblings: ReadonlySet<string>): boolean {
  return DATABASE_PART.test(name) || siblings.has(`${name}-wal`) || siblings.has(`${name}-journal`)
}

function readEntries(dir: string): Dirent[] | undefined {
  try {
    return readdirSync(dir, { withFileTypes: true })
  } catch {
    return undefined
  }
}

/** Linux syncs through a descriptor that is open for reading. */
async function sync(path: string): Promise<boolean> {
  try {
    const fd = openSync(path, 'r')
    try {
      await new Promise<void>((resolve, reject) => {
        fsync(fd, (error) => (error === null ? resolve() : reject(error)))
      })
    } finally {
      closeSync(fd)
    }
    return true
  } catch (error) {
    return HARMLESS.has(systemCode(error))
  }
}
