import { NexusError } from '@nexus/objectstore'
import type { BucketContext } from './bucket-context.ts'
import { findPlace, finishMove, modeOf, unlinkFile, type OwedSyncs } from './object-place.ts'

const MAX_ATTEMPTS = 100

/** Removes an object; a missing one is a success. Directories stay: see {@link ObjectPlace}. */
export async function deleteObject(context: BucketContext, segments: readonly string[]): Promise<void> {
  context.identity.check()
  const place = findPlace(context, segments)
  if (place === undefined) return
  const owed: OwedSyncs = { directories: new Set([place.parent]), entered: [] }
  for (let attempt = 0; ; attempt++) {
    if (attempt === MAX_ATTEMPTS) {
      throw new NexusError('UNAVAILABLE', `${place.plain} kept changing under ${attempt} attempts to delete it`, {
        op: 'objectstore.delete',
      })
    }
    const mode = modeOf(context, place)
    if (mode === 'moving') {
      finishMove(context, place, owed)
      continue
    }
    if (mode === 'taken') {
      if (unlinkFile(context, place.aside)) owed.directories.add(place.asideDirectory)
      break
    }
    const stat = context.fs.lstatSync(place.plain, { throwIfNoEntry: false })
    if (stat?.isFile() === true) unlinkFile(context, place.plain)
    // It may have been taken aside just before.
    if (modeOf(context, place) === 'plain') break
  }
  context.failpoint('fs:unlinked')
  // Also when nothing was there: whoever removed it may have died before the sync.
  await context.directories.sync(owed.directories, owed.entered)
}
