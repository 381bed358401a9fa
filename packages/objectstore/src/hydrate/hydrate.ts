import { isNexusError } from '@nexus/errors'
import { Slices } from '@nexus/host'
import { Destination } from './destination.ts'
import type { ObjectInfo, OpOptions, Progress } from '../driver.ts'
import { ObjectFailure } from '../errors.ts'
import { planHydration, refuseFoldedTwins, type PlannedFile } from './hydrate-plan.ts'
import { validateKeyPrefix } from '../keys.ts'
import type { TransferProgress } from '../transfer/monotonic-progress.ts'
import { forEachBounded } from '../transfer/pool.ts'
import { SharedWait } from '../transfer/shared-wait.ts'
import { writeWhole } from './replace-file.ts'

/** What a driver's download of one object is given. */
export interface DownloadOptions {
  signal: AbortSignal
  /** To be called as bytes arrive, with how many arrived since the last call; also those of an attempt that begins again. */
  onBytes: (bytes: number) => void
  /** The same in the form that `counting` and downloads of single objects take. */
  progress: TransferProgress
  /** As in `OpOptions`, for this download: the hydration waits only while all of its downloads do. */
  onWait: () => () => void
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

// Attempts that begin again are counted here, and the end of a file is its rename.
const ignore = (): void => undefined

/**
 * The part of `hydrate` that is the same in every driver: plans the listing, refuses what can't be a tree, then downloads
 * with bounded concurrency, each file through a temporary name, its size checked, and renamed into place. A file that came
 * out short is downloaded again, twice at most. Adds and overwrites, never deletes, never follows a link. Fails as a whole with the key named; no download runs on afterwards.
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
  try {
    await refuseFoldedTwins(plan, destDir, new Slices({ signal: options.signal }))
    const wait = new SharedWait(options.onWait)
    const totals: Required<Progress> = { objects: 0, bytes: 0, repeatedBytes: 0 }
    const report = (moved: Partial<Progress>): void => {
      totals.objects += moved.objects ?? 0
      totals.bytes += moved.bytes ?? 0
      totals.repeatedBytes += moved.repeatedBytes ?? 0
      const { repeatedBytes, ...rest } = totals
      options.onProgress?.(repeatedBytes === 0 ? rest : { ...totals })
    }
    const fetchOne = async (file: PlannedFile, _index: number, signal: AbortSignal): Promise<void> => {
      let counted = 0
      const onBytes = (bytes: number): void => {
        const fresh = Math.min(bytes, Math.max(0, file.size - counted))
        counted += fresh
        report({ bytes: fresh, repeatedBytes: bytes - fresh })
      }
      const progress = { begin: ignore, moved: onBytes, finished: ignore }
      const end = wait.begin()
      try {
        const tempPath = destination.tempPath()
        const write = async (path: string): Promise<number> =>
          (await download(file, path, { signal, onBytes, progress, onWait: wait.onWait })) ?? file.size
        const written = await writeWhole(tempPath, file.key, write, signal)
        signal.throwIfAborted()
        destination.place(tempPath, file.relPath)
        report({ objects: 1, bytes: Math.max(0, written - counted) })
      } catch (error) {
        if (signal.aborted || isNexusError(error)) throw error
        throw new ObjectFailure(file.key, destination.explain(error, file.relPath))
      } finally {
        end()
      }
    }
    await forEachBounded(plan, options.concurrency ?? 16, fetchOne, options.signal)
  } finally {
    destination.close()
  }
}
