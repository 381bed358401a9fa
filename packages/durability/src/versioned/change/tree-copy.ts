import { closeSync, lstatSync, mkdtempSync, openSync, readdirSync, readlinkSync, readSync } from 'node:fs'
import { join, relative } from 'node:path'
import { type Logger, sharedDigester, type Slices, TreeCursor } from '@nexus/host'
import { SnapshotMemory } from '../../capture/memory.ts'
import type { StagedFile } from '../../capture/stage.ts'
import type { CapturedTree } from '../../layout/layout.ts'

const SQLITE = Buffer.from('SQLite format 3\0')

/** What a copy is captured as. */
export type CopyFacts = Pick<CapturedTree, 'generation' | 'nonce' | 'instanceId' | 'turnId' | 'mixedFrom'> & {
  lastSeq: number
}

/**
 * A tree that nobody uses, captured as the commit of another layout takes it: databases byte by byte, since no writer changes
 * them.
 *
 * @param workDir an existing directory for short-lived files
 */
export async function withCapturedCopy<T>(
  sessionDir: string,
  { lastSeq, ...facts }: CopyFacts,
  { workDir, slices, concurrency }: { workDir: string; slices: Slices; concurrency: number },
  use: (captured: CapturedTree) => Promise<T>,
): Promise<T> {
  const files = new Map<string, StagedFile>()
  for (const localPath of filesBelow(sessionDir)) {
    if (slices.due) await slices.pause()
    const stat = lstatSync(localPath, { bigint: true })
    if (!stat.isFile() || !isDatabase(localPath)) continue
    const path = relative(sessionDir, localPath)
    files.set(path, {
      path,
      localPath,
      sizeBytes: Number(stat.size),
      mode: Number(stat.mode) & 0o777,
      mtimeNs: stat.mtimeNs,
    })
  }
  const parts = { files, journal: undefined, lostDatabases: [], lastSeq, dbBytes: 0, dbDurationMs: 0 }
  const cursor = new TreeCursor(sessionDir)
  try {
    return await use({
      ...facts,
      sequence: 1,
      trigger: 'request',
      cursor,
      sessionDir,
      stagingDir: mkdtempSync(join(workDir, 'staging-')),
      parts: Promise.resolve(parts),
      databases: undefined,
      committed: undefined,
      memory: new SnapshotMemory(),
      slices,
      concurrency,
    })
  } finally {
    cursor.close()
  }
}

/** The first path at which two trees differ: in content, mode of a file, target or kind. Undefined where they are the same. */
export async function firstDifference(
  a: string,
  b: string,
  { logger, slices }: { logger: Logger; slices: Slices },
): Promise<string | undefined> {
  const [before, after] = [await describe(a, logger, slices), await describe(b, logger, slices)]
  for (const [path, text] of before) if (after.get(path) !== text) return path
  return [...after.keys()].find((path) => !before.has(path))
}

async function describe(dir: string, logger: Logger, slices: Slices): Promise<Map<string, string>> {
  const found = new Map<string, string>()
  for (const localPath of filesBelow(dir)) {
    if (slices.due) await slices.pause()
    const stat = lstatSync(localPath)
    const path = relative(dir, localPath)
    if (stat.isSymbolicLink()) found.set(path, `link ${readlinkSync(localPath)}`)
    else {
      const { sha256 } = await sharedDigester(logger).digest(localPath, { sizeHint: stat.size, slices })
      found.set(path, `file ${stat.mode & 0o777} ${stat.size} ${sha256}`)
    }
  }
  return found
}

/** Files and links, not what is below links. */
function* filesBelow(dir: string): Generator<string> {
  for (const entry of readdirSync(dir, { withFileTypes: true })) {
    const path = join(dir, entry.name)
    if (entry.isDirectory()) yield* filesBelow(path)
    else if (entry.isFile() || entry.isSymbolicLink()) yield path
  }
}

function isDatabase(path: string): boolean {
  const fd = openSync(path, 'r')
  try {
    const start = Buffer.alloc(SQLITE.length)
    return readSync(fd, start, 0, start.length, 0) === start.length && start.equals(SQLITE)
  } finally {
    closeSync(fd)
  }
}
