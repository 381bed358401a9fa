import { closeSync, fstatSync, openSync } from 'node:fs'
import { fromSystemError } from '@nexus/errors'
import type { Slices } from '@nexus/host'
import type { UploadedPack } from '../../core/session-record.ts'
import { chunkSizeOf } from '../chunk-size.ts'
import { chunkSteps } from '../chunk-steps.ts'
import { PayloadSpool } from './payload-spool.ts'
import { type SessionObjects, waiting } from '../session-objects.ts'

/** Files up to this ride along with the next commit. */
export const WRITTEN_THROUGH_BYTES: number = 256 * 1024

/**
 * Stores the content of a large file that never changes, ahead of the commit that will name it: in packs, durable when it
 * resolves. A smaller one is left to the commit.
 *
 * @param generation of the next commit, as far as it is known
 * @throws what the store says, and `LOCAL_IO`
 */
export async function pushFile(
  objects: SessionObjects,
  localPath: string,
  {
    generation,
    slices,
    onPack,
    signal,
  }: {
    generation: number
    slices: Slices
    onPack: (pack: UploadedPack) => void | Promise<void>
    signal?: AbortSignal | undefined
  },
): Promise<void> {
  let fd: number
  try {
    fd = openSync(localPath, 'r')
  } catch (error) {
    throw fromSystemError(error, 'blob.push', localPath)
  }
  const { place } = objects
  // Packs that are only uploaded have no number yet.
  const spoolOptions = { place, nameOf: (each: number) => objects.nameOf(each), takeNumber: () => 0 }
  const spool = new PayloadSpool({ ...spoolOptions, generation, onPack, signal })
  try {
    const { size } = fstatSync(fd)
    if (size <= WRITTEN_THROUGH_BYTES) return
    const chunkSize = chunkSizeOf(undefined, { size, isDatabase: false, pageSize: 0 })
    for (const { stored } of chunkSteps(fd, { limit: size, chunkSize, isKnown: () => false })) {
      if (slices.due) await slices.pause()
      if (stored !== undefined) await spool.add(stored)
    }
    await spool.close(0)
    await place.store.flush(waiting(signal))
  } finally {
    await spool.abandon()
    closeSync(fd)
  }
}
