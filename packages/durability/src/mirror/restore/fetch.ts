import { join } from 'node:path'
import { forEachBounded, isObjectNotFound, refuseFoldedTwins, type ObjectStore } from '@nexus/objectstore'
import type { Failpoint, Logger, Slices, FileDigester } from '@nexus/host'
import { restoring, type StagedTree } from '../../layout/staged-tree.ts'
import { totalBytes } from '../../tree/committed.ts'
import type { Manifest, ManifestEntry } from '../manifest/manifest.ts'

export interface FetchOptions {
  store: ObjectStore
  /** Key prefix of the tree. */
  treeKey: string
  tree: StagedTree
  digester: FileDigester
  slices: Slices
  concurrency: number
  signal?: AbortSignal | undefined
  failpoint: Failpoint
  logger: Logger
  /** An existing directory for short-lived files, on the file system of the tree. */
  scratchDir: string
  /** Where the whole prefix is downloaded to, when the backend has no `get`. */
  rawDir: string | undefined
}

/** What came of fetching the objects of one manifest. */
export interface Fetched {
  /** The store says that it doesn't have them. */
  missing: string[]
  /** They don't hold what the manifest says. Sizes are those that arrived. */
  differing: Map<string, number>
  /** Objects that were longer than the manifest says and began with just that: cut back. */
  cut: string[]
}

/** Where a verified file of an earlier attempt lies. */
export type Reusable = (path: string, entry: ManifestEntry) => string | undefined

const nothing = (): Fetched => ({ missing: [], differing: new Map(), cut: [] })

/**
 * Fetches exactly the named objects, concurrently, and checks each against its digest. An object that doesn't match is
 * fetched once more before that is believed: what a driver delivered short looks the same.
 */
export async function fetchNamed(manifest: Manifest, options: FetchOptions, reusable: Reusable): Promise<Fetched> {
  const { store, treeKey, tree, concurrency, signal, failpoint } = options
  await refuseFoldedTwins(keysOf(manifest, treeKey), tree.dir, options.slices)
  const fetched = nothing()
  const fetchOne = async (path: string, _index: number, laneSignal: AbortSignal): Promise<void> => {
    const entry = manifest.entries[path]
    const localPath = restoring(path, () => tree.place(path))
    const kept = entry === undefined ? undefined : reusable(path, entry)
    if (kept !== undefined) return restoring(path, () => tree.fs.renameSync(kept, localPath))
    const get = (): Promise<boolean> =>
      getObject(store, `${treeKey}/${path}`, localPath, { signal: laneSignal, bytes: entry?.size ?? 0 })
    if (!(await get())) fetched.missing.push(path)
    else if (entry !== undefined && !(await matches(path, localPath, entry, fetched, options))) {
      if (!(await get())) fetched.missing.push(path)
      else await matches(path, localPath, entry, fetched, options)
    }
    const pause = failpoint('hydrate:object-fetched')
    if (pause !== undefined) await pause
  }
  await forEachBounded(manifest.objects, concurrency, fetchOne, signal)
  return fetched
}

function* keysOf({ objects }: Manifest, treeKey: string): Iterable<{ key: string; relPath: string }> {
  for (const relPath of objects) yield { key: `${treeKey}/${relPath}`, relPath }
}

/** {@link fetchNamed} for a backend without `get`: everything under the prefix, of which only what is named is taken. */
export async function fetchPruned(manifest: Manifest, rawDir: string, options: FetchOptions): Promise<Fetched> {
  const { store, treeKey, tree, concurrency, signal, failpoint } = options
  tree.fs.mkdirSync(rawDir, { mode: 0o700 })
  await store.hydrate(treeKey, rawDir, {
    expected: { objects: manifest.objects.length, bytes: await totalBytes(manifest, options.slices) },
    signal,
  })
  const fetched = nothing()
  const takeOne = async (path: string): Promise<void> => {
    const rawPath = join(rawDir, path)
    if (tree.fs.lstatSync(rawPath, { throwIfNoEntry: false })?.isFile() !== true) {
      fetched.missing.push(path)
      return
    }
    const localPath = tree.place(path)
    restoring(path, () => tree.fs.renameSync(rawPath, localPath))
    const entry = manifest.entries[path]
    if (entry !== undefined) await matches(path, localPath, entry, fetched, options)
    const pause = failpoint('hydrate:object-fetched')
    if (pause !== undefined) await pause
  }
  await forEachBounded(manifest.objects, concurrency, takeOne, signal)
  return fetched
}

/** @returns false when the store says that there is no such object */
export async function getObject(
  store: ObjectStore,
  key: string,
  localPath: string,
  { signal, bytes }: { signal?: AbortSignal | undefined; bytes: number },
): Promise<boolean> {
  try {
    await store.get(key, localPath, { expected: { bytes }, signal })
    return true
  } catch (error) {
    if (isObjectNotFound(error)) return false
    throw error
  }
}

/**
 * Compares a file with its entry. One that is longer and begins with the committed bytes was appended to by a snapshot
 * that didn't get to its commit: it is cut back.
 *
 * @see docs/concepts/durability.md
 */
export async function matches(
  path: string,
  localPath: string,
  entry: ManifestEntry,
  fetched: Pick<Fetched, 'differing' | 'cut'>,
  { digester, slices, tree }: Pick<FetchOptions, 'digester' | 'slices' | 'tree'>,
): Promise<boolean> {
  const digest = await digester.digest(localPath, { limit: entry.size, sizeHint: entry.size, slices })
  if (digest.bytes !== entry.size || digest.sha256 !== entry.sha256) {
    fetched.differing.set(path, digest.size)
    return false
  }
  fetched.differing.delete(path)
  if (digest.size > entry.size) {
    restoring(path, () => tree.fs.truncateSync(localPath, entry.size))
    fetched.cut.push(path)
  }
  return true
}
