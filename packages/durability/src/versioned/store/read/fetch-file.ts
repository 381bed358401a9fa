import { closeSync, constants, openSync, writeSync } from 'node:fs'
import { fromSystemError } from '@nexus/errors'
import { decodeChunk } from '../../format/bytes/chunk.ts'
import { chunkLength } from '../../format/index-entry.ts'
import { GoneObjectError, type RangeOptions, type RangeReader } from '../range-reader.ts'
import type { TreeState } from '../tree-state.ts'

/**
 * Brings one committed file back, to a path where nothing is yet.
 *
 * @returns false when the commit has no such file, or the store lacks an object that it names
 * @throws DamagedObjectError, what the store says, and `LOCAL_IO`
 */
export async function fetchFile(
  { state, reader }: { state: TreeState; reader: RangeReader },
  path: string,
  localPath: string,
  options: RangeOptions,
): Promise<boolean> {
  const file = state.files[path]
  if (file === undefined) return false
  let fd: number
  try {
    fd = openSync(localPath, constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC | constants.O_NOFOLLOW, 0o600)
  } catch (error) {
    throw fromSystemError(error, 'blob.fetch', localPath)
  }
  const wanted = file.chunks.map((id, index) => ({ ...state.table.ref(id), index }))
  try {
    await reader.read(
      wanted,
      (chunk, stored, range) => {
        const rawLength = chunkLength(file.size, file.chunkSize, chunk.index)
        const content = decodeChunk(stored, chunk, range, { into: Buffer.allocUnsafe(rawLength), rawLength })
        const position = chunk.index * file.chunkSize
        for (let at = 0; at < rawLength;) at += writeSync(fd, content, at, rawLength - at, position + at)
      },
      options,
    )
    return true
  } catch (error) {
    if (error instanceof GoneObjectError) return false
    throw error
  } finally {
    closeSync(fd)
  }
}
