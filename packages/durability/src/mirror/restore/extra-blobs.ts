import { join } from 'node:path'
import { isNexusError } from '@nexus/errors'
import { forEachBounded, trimKeyPrefix } from '@nexus/objectstore'
import { TreeCursor } from '@nexus/host'
import { getObject, type FetchOptions } from './fetch.ts'
import { restoring } from '../../layout/staged-tree.ts'
import type { Manifest } from '../manifest/manifest.ts'
import { BLOBS_DIR, immutableKind } from '../../tree/names.ts'
import { TreeWalker } from '../../tree/tree-walk.ts'

const OWNER_ONLY_FILE = 0o600
const MAX_PATH_BYTES = 4096

/**
 * Takes blobs that the manifest doesn't name where they may be needed: the content of a blob is its name, so none can be
 * of the wrong generation. What was downloaded with everything else is kept; else only for a manifest of version 1, whose
 * writer stopped naming blobs that had left its disk.
 *
 * @see docs/concepts/durability.md
 */
export async function takeExtraBlobs(manifest: Manifest, options: FetchOptions): Promise<void> {
  const { store, treeKey, rawDir, tree, concurrency, signal } = options
  const named = new Set([...manifest.objects, ...Object.keys(manifest.links), ...Object.keys(manifest.dirs)])
  const isExtra = (path: string): boolean => isBlob(path) && !named.has(path) && !isBelowLeaf(path, named)
  if (rawDir !== undefined) {
    for (const path of await filesIn(rawDir, options)) if (isExtra(path)) take(path, rawDir, options)
    return
  }
  if (manifest['_schema_version'] !== 1) return
  const extra = (await listBlobs(options)).filter(isExtra)
  await forEachBounded(
    extra,
    concurrency,
    async (path, _index, laneSignal) => {
      const localPath = tree.place(path)
      await getObject(store, `${treeKey}/${path}`, localPath, { signal: laneSignal, bytes: 0 })
    },
    signal,
  )
}

async function listBlobs({ store, treeKey, signal, logger }: FetchOptions): Promise<string[]> {
  try {
    const objects = await store.list(`${treeKey}/${BLOBS_DIR}`, { signal })
    return objects.map(({ key }) => trimKeyPrefix(key, treeKey) ?? '')
  } catch (error) {
    signal?.throwIfAborted()
    if (isNexusError(error) && error.retryable) throw error
    logger.warn({ err: error }, 'the store can not be listed: blobs that no manifest names were not looked for')
    return []
  }
}

/** Files of a downloaded prefix, session-relative, in no order; the walk leaves out what never crosses. */
async function filesIn(rawDir: string, { slices }: FetchOptions): Promise<string[]> {
  const cursor = new TreeCursor(rawDir)
  const { files } = await new TreeWalker(cursor, { maxPathBytes: MAX_PATH_BYTES, slices })
    .walk()
    .finally(() => cursor.close())
  return [...files.keys()]
}

function take(path: string, rawDir: string, { tree }: FetchOptions): void {
  const localPath = tree.place(path)
  restoring(path, () => {
    tree.fs.renameSync(join(rawDir, path), localPath)
    tree.fs.chmodSync(localPath, OWNER_ONLY_FILE)
  })
}

function isBlob(path: string): boolean {
  const kind = immutableKind(path)
  return kind === 'blob' || kind === 'blob-meta'
}

function isBelowLeaf(path: string, named: ReadonlySet<string>): boolean {
  const [, xx] = path.split('/')
  return named.has(BLOBS_DIR) || named.has(`${BLOBS_DIR}/${xx}`)
}
