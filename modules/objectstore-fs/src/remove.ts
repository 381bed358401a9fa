import { NexusError } from '@nexus/objectstore'
import type { BucketContext } from './object/bucket-context.ts'
import { findPlace, finishMove, modeOf, unlinkFile, type OwedSyncs } from './object/object-place.ts'

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
    // Before the mode: with nothing aside after that, this file was the object.
    const object = statFile(context, place.plain)
    const mode = modeOf(context, place)
    if (mode === 'moving') {
      finishMove(context, place, owed)
      continue
    }
    if (mode === 'taken') {
      if (unlinkFile(context, place.aside)) owed.directories.add(place.asideDirectory)
      break
    }
    if (object === undefined) break
    unlinkFile(context, place.plain)
    // It may have been taken aside just before. What is aside and not the same file was stored after the deletion.
    const aside = statFile(context, place.aside)
    if (aside?.ino !== object.ino || aside.mtimeNs !== object.mtimeNs) break
  }
  context.failpoint('fs:unlinked')
  // Also when nothing was there: the process that removed it may have died before the sync.
  await context.directories.sync(owed.directories, owed.entered)
}

function statFile({ fs }: BucketContext, path: string): { ino: bigint; mtimeNs: bigint } | undefined {
  const stat = fs.lstatSync(path, { throwIfNoEntry: false, bigint: true })
  return stat?.isFile() === true ? stat : undefined
}
