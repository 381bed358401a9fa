import { type Slices, forEachSliced, sortSliced } from '@nexus/host'
import { type CommittedDir, pathRecord } from '../tree/committed.ts'
import type { Unstorable, WalkedTree } from '../tree/tree-walk.ts'

const PERMISSION_BITS = 0o777
/** The mode of a directory that comes into being by itself. */
export const DEFAULT_DIR_MODE = 0o700

/** Tells whether a path is, or lies below, something that could not be stored. */
export function coveredBy(unstorable: readonly Unstorable[]): (path: string) => boolean {
  const exact = new Set<string>()
  const trees = new Set<string>()
  for (const { path, tree } of unstorable) (tree ? trees : exact).add(path)
  return (path) => exact.has(path) || trees.has(path) || ancestorsOf(path).some((above) => trees.has(above))
}

/** Tells whether a carried path can exist beside what the tree holds now. */
export function freePlaces(tree: WalkedTree, stored: { has(path: string): boolean }): (path: string) => boolean {
  const isLeaf = (path: string): boolean => stored.has(path) || tree.links.has(path)
  return (path) => !tree.dirs.has(path) && !tree.links.has(path) && !ancestorsOf(path).some(isLeaf)
}

/** Directories that don't come into being by themselves when the objects are written: empty ones, and unusual modes. */
export async function recordDirs(
  dirs: ReadonlyMap<string, number>,
  objects: readonly string[],
  links: ReadonlyMap<string, string>,
  slices: Slices,
): Promise<Record<string, CommittedDir>> {
  const implied = new Set<string>()
  const imply = (path: string): void => {
    for (let at = path.lastIndexOf('/'); at !== -1; at = path.lastIndexOf('/', at - 1)) {
      const parent = path.slice(0, at)
      if (implied.has(parent)) return
      implied.add(parent)
    }
  }
  await forEachSliced(objects, slices, imply)
  await forEachSliced(links.keys(), slices, imply)
  const modes = new Map<string, number>()
  const sorted = await sortSliced(dirs.keys(), slices)
  // Children sort after their parents, so backwards every directory is asked about after what lies below it.
  await forEachSliced(sorted.toReversed(), slices, (path) => {
    const mode = (dirs.get(path) ?? 0) & PERMISSION_BITS
    if (mode === DEFAULT_DIR_MODE && implied.has(path)) return
    modes.set(path, mode)
    imply(path)
  })
  return record(sorted, slices, (path) => {
    const mode = modes.get(path)
    return mode === undefined ? undefined : { mode }
  })
}

/** Paths for which there is no value are left out. */
export async function record<T>(
  paths: readonly string[],
  slices: Slices,
  valueOf: (path: string) => T | undefined,
): Promise<Record<string, T>> {
  const out = pathRecord<T>()
  await forEachSliced(paths, slices, (path) => {
    const value = valueOf(path)
    if (value !== undefined) out[path] = value
  })
  return out
}

function ancestorsOf(path: string): string[] {
  const out: string[] = []
  for (let at = path.indexOf('/'); at !== -1; at = path.indexOf('/', at + 1)) out.push(path.slice(0, at))
  return out
}
