import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { mkdir, open, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { isNexusError, NexusError } from '@nexus/errors'
import type { ObjectStore } from '@nexus/objectstore'
import { engineTempName } from '@nexus/host'

/** The session-relative paths of a blob, its content first. */
export function blobPaths(sha256: string): { bin: string; meta: string } {
  const base = `blobs/${sha256.slice(0, 2)}/${sha256}`
  return { bin: `${base}.bin`, meta: `${base}.meta` }
}

/**
 * Brings an evicted blob back from the store, verified, to its place in the session tree.
 *
 * The media type comes first, since the content's name is what makes the blob exist; both appear by a rename of synced
 * files, so no crash leaves wrong bytes under a digest.
 *
 * @returns false when the backend has no `get`, or the store says that it has no such blob
 * @throws `CORRUPT` when the stored bytes don't have that digest; an outage, as the store reports it
 */
export async function repairBlob(
  store: ObjectStore,
  sha256: string,
  where: { treePrefix: string; sessionDir: string; signal: AbortSignal },
): Promise<boolean> {
  if (!store.capabilities.get) return false
  const { bin, meta } = blobPaths(sha256)
  const fetchTo = async (path: string): Promise<string | undefined> => {
    const folder = dirname(join(where.sessionDir, path))
    await mkdir(folder, { recursive: true, mode: 0o700 })
    const temporary = join(folder, engineTempName())
    try {
      await store.get(`${where.treePrefix}/${path}`, temporary, { signal: where.signal })
      await syncFile(temporary)
      return temporary
    } catch (error) {
      await rm(temporary, { force: true })
      if (isNexusError(error, 'NOT_FOUND')) return undefined
      throw error
    }
  }
  const content = await fetchTo(bin)
  if (content === undefined) return false
  try {
    const found = await digestOf(content)
    if (found !== sha256) {
      throw new NexusError('CORRUPT', `the stored blob ${sha256} has the digest ${found}`, {
        op: 'durability.repair-blob',
        key: `${where.treePrefix}/${bin}`,
      })
    }
    const mediaType = await fetchTo(meta)
    if (mediaType !== undefined) await rename(mediaType, join(where.sessionDir, meta))
    await rename(content, join(where.sessionDir, bin))
    return true
  } finally {
    await rm(content, { force: true })
  }
}

async function syncFile(path: string): Promise<void> {
  const handle = await open(path, 'r+')
  try {
    await handle.datasync()
  } finally {
    await handle.close()
  }
}

async function digestOf(path: string): Promise<string> {
  const hash = createHash('sha256')
  await pipeline(createReadStream(path), hash)
  return hash.digest('hex')
}
