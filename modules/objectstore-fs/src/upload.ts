import type { BucketContext } from './object/bucket-context.ts'
import type { Call } from './call.ts'
import { contended, linkTemp, placeTemp } from './object/name-object.ts'
import type { OwedSyncs } from './object/object-place.ts'
import { writeTemp } from './object/stored-temp.ts'
import { findUnchanged } from './object/unchanged.ts'

const MAX_ATTEMPTS = 100

/** Stores the first bytes of a local file, as many as it has now, as the whole object. Gives their number. */
export async function putObject(
  context: BucketContext,
  segments: readonly string[],
  localPath: string,
  call: Call,
): Promise<number> {
  context.identity.check()
  call.signal.throwIfAborted()
  const unchanged = await findUnchanged(context, segments, localPath, call)
  if (unchanged !== undefined) return unchanged
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
    const temp = await writeTemp(context, localPath, call)
    const owed: OwedSyncs = { directories: new Set(), entered: [] }
    let placed: string | undefined
    try {
      placed = placeTemp(context, temp, segments, owed)
    } catch (error) {
      context.temps.discard(temp)
      throw error
    }
    if (placed === undefined) continue
    context.failpoint('fs:renamed')
    await context.directories.sync(owed.directories, owed.entered)
    context.failpoint('fs:directory-synced')
    if (context.durable) context.durableObjects.add(placed, temp)
    return temp.sizeBytes
  }
  throw contended(segments)
}

/**
 * Creates the object only if the key is free: link(2) decides, between processes and hosts. Gives the number of bytes, or
 * undefined when the key was taken.
 */
export async function createObject(
  context: BucketContext,
  segments: readonly string[],
  localPath: string,
  call: Call,
): Promise<number | undefined> {
  context.identity.check()
  const temp = await writeTemp(context, localPath, call)
  const owed: OwedSyncs = { directories: new Set(), entered: [] }
  try {
    if (!linkTemp(context, temp, segments, owed)) return undefined
  } finally {
    context.temps.discard(temp)
  }
  context.failpoint('fs:linked')
  await context.directories.sync(owed.directories, owed.entered)
  context.failpoint('fs:directory-synced')
  return temp.sizeBytes
}
