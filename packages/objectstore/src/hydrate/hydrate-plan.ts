import { lstatSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { NexusError } from '@nexus/errors'
import { engineTempName, type Slices } from '@nexus/host'
import type { ObjectInfo } from '../driver.ts'
import { quoteKey } from '../errors.ts'
import { isFolderPlaceholder, keyFault, trimKeyPrefix } from '../keys.ts'

/** One file that hydration will write. */
export interface PlannedFile {
  /** The full store-relative key. */
  key: string
  /** Where the file goes, `/`-separated, relative to the destination. Obeys the key rules. */
  relPath: string
  /** Listed bytes. */
  size: number
}

const OP = 'objectstore.hydrate'

/**
 * What hydrating `prefix` writes, from a raw listing with store-relative keys. Objects that are not under the prefix and
 * the zero-byte `folder/` placeholders of consoles are left out. Nothing is written yet, so a listing that can't be
 * hydrated fails before it leaves half a tree.
 *
 * @throws NexusError `CORRUPT` naming the key when the bucket holds one that breaks the key rules, or naming both when one
 *   would have to be a file and a directory
 */
export function planHydration(objects: Iterable<ObjectInfo>, prefix: string): PlannedFile[] {
  const plan: PlannedFile[] = []
  const files = new Map<string, string>()
  for (const { key, size } of objects) {
    const relPath = trimKeyPrefix(key, prefix)
    if (relPath === undefined || isFolderPlaceholder(relPath, size)) continue
    const fault = keyFault(relPath)
    if (fault !== undefined) {
      const message = `the store holds ${quoteKey(key)}, which ${fault} and can't become a file; remove or rename it`
      throw new NexusError('CORRUPT', message, { op: OP, key })
    }
    if (files.has(relPath)) continue
    files.set(relPath, key)
    plan.push({ key, relPath, size })
  }
  refuseFileAndDirectory(plan, files)
  return plan
}

function refuseFileAndDirectory(plan: readonly PlannedFile[], files: ReadonlyMap<string, string>): void {
  // A directory that was looked at once has had all its parents looked at too.
  const seen = new Set<string>()
  for (const { key, relPath } of plan) {
    for (let end = relPath.lastIndexOf('/'); end > 0; end = relPath.lastIndexOf('/', end - 1)) {
      const directory = relPath.slice(0, end)
      if (seen.has(directory)) break
      seen.add(directory)
      const other = files.get(directory)
      if (other !== undefined) throw collision(other, key, 'can not both be files: one is a directory of the other')
    }
  }
}

/**
 * Refuses a plan whose names differ only in letter case or Unicode form when the destination's file system folds them,
 * where the last one written would silently win. The file system is asked only when such names are there.
 *
 * @param slices lets the event loop run in between
 * @param folds for tests: whether the two last-segment names land on one file in `destDir`
 * @throws NexusError `CORRUPT` naming both keys
 */
export async function refuseFoldedTwins(
  plan: Iterable<Pick<PlannedFile, 'key' | 'relPath'>>,
  destDir: string,
  slices: Slices,
  folds: (destDir: string, a: string, b: string) => boolean = foldsOnDisk,
): Promise<void> {
  const byFolded = new Map<string, Pick<PlannedFile, 'key' | 'relPath'>>()
  for (const file of plan) {
    if (slices.due) await slices.pause()
    const folded = file.relPath.normalize('NFC').toLowerCase()
    const twin = byFolded.get(folded)
    if (twin === undefined) byFolded.set(folded, file)
    else if (folds(destDir, flat(twin.relPath), flat(file.relPath))) {
      throw collision(twin.key, file.key, `would be one file in ${destDir}, whose file system folds names`)
    }
  }
}

// The probe is about the characters, not about the tree: the path becomes one short name.
function flat(relPath: string): string {
  return relPath.replaceAll('/', '-').slice(-60)
}

function foldsOnDisk(destDir: string, a: string, b: string): boolean {
  if (a === b) return false
  const probe = join(destDir, engineTempName())
  mkdirSync(probe, { recursive: true })
  try {
    writeFileSync(join(probe, a), '')
    return lstatSync(join(probe, b), { throwIfNoEntry: false }) !== undefined
  } finally {
    rmSync(probe, { recursive: true, force: true })
  }
}

function collision(a: string, b: string, problem: string): NexusError {
  const message = `the store holds ${quoteKey(a)} and ${quoteKey(b)}, which ${problem}; remove or rename one`
  return new NexusError('CORRUPT', message, { op: OP, key: b })
}
