import { isNexusError } from '@nexus/errors'
import { Destination } from './destination.ts'
import type { ObjectInfo, OpOptions, Progress } from '../driver.ts'
import { ObjectFailure } from '../errors.ts'
import { planHydration, refuseFoldedTwins, type PlannedFile } from './hydrate-plan.ts'
import { validateKeyPrefix } from '../keys.ts'
import { forEachBounded } from '../transfer/pool.ts'
import { replaceFile } from './replace-file.ts'

/** What a driver's download of one object is given. */
export interface DownloadOptions {
  signal: AbortSignal
  /** To be called as bytes arrive, with how many arrived since the last call. */
  onBytes: (bytes: number) => void
}

/**
 * Writes one whole object to `tempPath`, a new file. Resolves with the size the store declared for what it sent, when that
 * may differ from the listed one (the object was replaced since), else with nothing.
 */
export type Download = (
  file: PlannedFile,
  tempPath: string,
  options: DownloadOptions,
  // eslint-disable-next-line typescript/no-invalid-void-type
) => Promise<number | void> | number | void

/** What {@link hydrateObjects} needs besides the listing. */
export interface HydrateOptions extends OpOptions {
  /** Downloads at a time, at least 1. Default 16, where most stores level off. */
  concurrency?: number
}

/**
 * The part of `hydrate` that is the same in every driver: plans the listing, refuses what can't be a tree, then downloads
 * with bounded concurrency, each file through a temporary name, its size checked, and renamed into place. Adds and
 * overwrites, never deletes. Fails as a whole with the key named; no download runs on afterwards.
 *
 * @param objects the raw listing with store-relative keys, placeholders and all
 */
export async function hydrateObjects(
  objects: Iterable<ObjectInfo>,
  prefix: string,
  destDir: string,
  download: Download,
  options: HydrateOptions = {},
): Promise<void> {
  validateKeyPrefix(prefix)
  options.signal?.throwIfAborted()
  const plan = planHydration(objects, prefix)
  const destination = new Destination(destDir)
  refuseFoldedTwins(plan, destDir)
  const progress: Progress = { objects: 0, bytes: 0 }
  const report = (bytes: number, finished: number): void => {
    progress.bytes += bytes
    progress.objects += finished
    options.onProgress?.({ ...progress })
  }
  const fetchOne = async (file: PlannedFile, _index: number, signal: AbortSignal): Promise<void> => {
    let arrived = 0
    const onBytes = (bytes: number): void => {
      arrived += bytes
      report(bytes, 0)
    }
    try {
      const path = destination.resolve(file.relPath)
      const written = await replaceFile(path, file.key, async (tempPath) => {
        const declared = await download(file, tempPath, { signal, onBytes })
        return declared ?? file.size
      })
      report(written - arrived, 1)
    } catch (error) {
      throw signal.aborted || isNexusError(error) ? error : new ObjectFailure(file.key, error)
    }
  }
  await forEachBounded(plan, options.concurrency ?? 16, fetchOne, options.signal)
}
