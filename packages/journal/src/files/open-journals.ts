import { NexusError } from '@nexus/errors'
import type { JournalFs } from './journal-fs.ts'

/** Directories that a writer or a rewind of this thread is at work in, by device and inode: a path may have many spellings. */
const claimed = new WeakMap<JournalFs, Set<string>>()

/**
 * Keeps every other writer of this thread out of an open journal directory. Other processes are kept out by the lock that
 * the caller holds.
 *
 * @returns gives the directory back
 * @throws `LOCKED` when it is claimed already
 */
export function claimJournal(fs: JournalFs, dir: string, op: string): () => void {
  const key = keyOf(fs, dir)
  const keys = claimed.get(fs) ?? new Set()
  claimed.set(fs, keys)
  if (keys.has(key)) throw locked(dir, op)
  keys.add(key)
  return () => void keys.delete(key)
}

/** Throws `LOCKED` while a writer or a rewind of this thread is at work in the directory. */
export function refuseWhileWritten(fs: JournalFs, dir: string, op: string): void {
  if (claimed.get(fs)?.has(keyOf(fs, dir))) throw locked(dir, op)
}

function keyOf(fs: JournalFs, dir: string): string {
  const fd = fs.openSync(dir, 'r')
  try {
    const { dev, ino } = fs.fstatSync(fd)
    return `${dev}:${ino}`
  } finally {
    fs.closeSync(fd)
  }
}

function locked(dir: string, op: string): NexusError {
  const message = `this process has the journal in ${dir} open for writing already: close it first`
  return new NexusError('LOCKED', message, { op, key: dir })
}
