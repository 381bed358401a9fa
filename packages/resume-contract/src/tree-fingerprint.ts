import { createHash } from 'node:crypto'
import { lstatSync, readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'

/** Session-relative path → mode, kind and digest. */
export type TreeFingerprint = Record<string, string>

/**
 * What differs between two runs by nature: the lock, the journal and metadata (a resume writes its own events), the live
 * databases and their sidecars (compared by their rows).
 */
const OF_THE_RUN = /^(session\.lock|journal(\/.*)?|metadata\/.*|plugins\/.*store\.db(-wal|-shm)?)$/

function describe(path: string): string {
  const stat = lstatSync(path)
  const mode = (stat.mode & 0o777).toString(8)
  if (stat.isSymbolicLink()) return `link ${readlinkSync(path)}`
  if (stat.isDirectory()) return `${mode} directory`
  return `${mode} ${stat.size} ${createHash('sha256').update(readFileSync(path)).digest('hex')}`
}

/** Reads a whole session tree, file by file. */
export function fingerprintTree(sessionDir: string): TreeFingerprint {
  const paths = readdirSync(sessionDir, { recursive: true, encoding: 'utf8' }).filter((path) => !OF_THE_RUN.test(path))
  return Object.fromEntries(paths.toSorted().map((path) => [path, describe(join(sessionDir, path))]))
}
