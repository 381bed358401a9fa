import { ACTIVE_SEGMENT, ARCHIVE_DIR, segmentNumber } from './format.ts'
import { nodeFs, type JournalFs } from '../files/journal-fs.ts'
import { readSwept } from './swept.ts'
import { INTENT_FILE, intendedActivePath, intendedSealedPath, readIntent } from './rewind-intent.ts'

/** A sealed segment in a journal directory. */
export interface SealedFile {
  name: string
  number: number
  path: string
}

/** Names in a directory; none when there is no such directory. */
export function listNames(fs: JournalFs, dir: string): string[] {
  try {
    return fs.readdirSync(dir)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
    throw error
  }
}

/** Sealed segments among the names of `dir`, in ascending order of their numbers. */
export function sealedFiles(dir: string, names: readonly string[]): SealedFile[] {
  const files: SealedFile[] = []
  for (const name of names) {
    const number = segmentNumber(name)
    if (number !== undefined) files.push({ name, number, path: `${dir}/${name}` })
  }
  return files.toSorted((a, b) => a.number - b.number)
}

/**
 * The highest segment number that the directory or one of its archives has used, swept ones included; 0 for none. A number is never used
 * twice, since a store that already holds a segment of that name would keep the old content.
 */
export function highestSegmentNumber(dir: string, fs: JournalFs = nodeFs): number {
  const dirs = [dir, ...listNames(fs, `${dir}/${ARCHIVE_DIR}`).map((name) => `${dir}/${ARCHIVE_DIR}/${name}`)]
  const inUse = dirs.map((each) => sealedFiles(each, listNames(fs, each)).at(-1)?.number ?? 0)
  return Math.max(0, ...inUse, ...readSwept(dir, fs).map(({ name }) => segmentNumber(name) ?? 0))
}

/** Up to which seq events were swept from the journal in `dir`; 0 for none. Segments that came back do not count. */
export function sweptSeq(dir: string, fs: JournalFs = nodeFs): number {
  const present = new Set(listSealed(dir, fs).map(({ name }) => name))
  const gone = readSwept(dir, fs).filter(({ name }) => !present.has(name))
  return Math.max(0, ...gone.map(({ last_seq: lastSeq }) => lastSeq))
}

/** The sealed segments that make up the journal in `dir`, in order. A decided rewind counts, finished or not. */
export function listSealed(dir: string, fs: JournalFs = nodeFs): SealedFile[] {
  const names = listNames(fs, dir)
  const intent = names.includes(INTENT_FILE) ? readIntent(dir, fs) : undefined
  if (!intent) return sealedFiles(dir, names)
  return sealedFiles(dir, intent.sealed).map((file) => ({
    ...file,
    path: intendedSealedPath(dir, file.name, intent, names),
  }))
}

/** Where the active segment of the journal in `dir` is. A decided rewind counts, finished or not. */
export function activePath(dir: string, fs: JournalFs = nodeFs): string {
  const names = listNames(fs, dir)
  return names.includes(INTENT_FILE) ? intendedActivePath(dir, names) : `${dir}/${ACTIVE_SEGMENT}`
}
