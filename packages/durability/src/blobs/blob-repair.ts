import { rename, rm } from 'node:fs/promises'
import { basename } from 'node:path'
import { fromSystemError, NexusError, systemCode } from '@nexus/errors'
import type { Layout } from '../layout/layout.ts'
import { engineTempName, holdDirectory, sha256OfFile, syncFile, type HeldDirectory } from '@nexus/host'

/** The session-relative paths of a blob, its content first. */
export function blobPaths(sha256: string): { bin: string; meta: string } {
  const base = `blobs/${sha256.slice(0, 2)}/${sha256}`
  return { bin: `${base}.bin`, meta: `${base}.meta` }
}

/**
 * Brings an evicted blob back from the store, verified, to its place in the session tree.
 *
 * The media type comes first, since the content's name is what makes the blob exist; both appear by a rename of synced
 * files, so no crash leaves wrong bytes under a digest. The directory they go to is held open: a link in its place, now or
 * at any moment, is not written through.
 *
 * @returns false when the backend has no `get`, or the store says that it has no such blob
 * @throws `CORRUPT` when the stored bytes don't have that digest; `PRECONDITION` when a link or a file is in the way; an outage, as the store reports it
 */
export async function repairBlob(
  layout: Layout,
  sha256: string,
  where: { sessionDir: string; signal: AbortSignal },
): Promise<boolean> {
  const shard = holdShard(where.sessionDir, sha256)
  try {
    return await repairInto(shard, layout, sha256, where.signal)
  } finally {
    shard.close()
  }
}

function holdShard(sessionDir: string, sha256: string): HeldDirectory {
  try {
    return holdDirectory(sessionDir, ['blobs', sha256.slice(0, 2)], { create: true })
  } catch (error) {
    const code = systemCode(error)
    if (code !== 'ENOTDIR' && code !== 'ELOOP') throw fromSystemError(error, 'durability.repair-blob', sessionDir)
    const message = `blob ${sha256} can't be brought back: in ${sessionDir}, blobs or a directory in it is a link or a file. Move that aside`
    throw new NexusError('PRECONDITION', message, { op: 'durability.repair-blob', key: sha256, cause: error })
  }
}

async function repairInto(shard: HeldDirectory, layout: Layout, sha256: string, signal: AbortSignal): Promise<boolean> {
  const { bin, meta } = blobPaths(sha256)
  const fetchTo = async (path: string): Promise<string | undefined> => {
    const temporary = shard.at(engineTempName())
    try {
      if (!(await layout.fetchBlob(path, temporary, signal))) return undefined
      await syncFile(temporary)
      return temporary
    } catch (error) {
      await rm(temporary, { force: true })
      throw error
    }
  }
  const content = await fetchTo(bin)
  if (content === undefined) return false
  try {
    const found = await sha256OfFile(content)
    if (found !== sha256) {
      throw new NexusError('CORRUPT', `the stored blob ${sha256} has the digest ${found}`, {
        op: 'durability.repair-blob',
        key: bin,
      })
    }
    const mediaType = await fetchTo(meta)
    if (mediaType !== undefined) await rename(mediaType, shard.at(basename(meta)))
    await rename(content, shard.at(basename(bin)))
    return true
  } finally {
    await rm(content, { force: true })
  }
}
