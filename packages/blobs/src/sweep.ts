import { noFailpoint, type Failpoint } from './failpoint.ts'
import { unlinkIfThere, type BlobFileSystem } from './file-system.ts'
import { blobPaths } from './layout.ts'
import { isAbandonedTemp, TEMP_GRACE_MS } from './temp-file.ts'
import { walkStore, type StoredFile } from './walk-store.ts'

/** What a sweep removed. Temp files are not counted. */
export interface SweepResult {
  /** Number of blobs. */
  evicted: number
  /** Bytes of their `.bin` files. */
  freed: number
}

export interface SweepOptions {
  dir: string
  fs: BlobFileSystem
  /** Bytes of `.bin` files to keep at most; undefined evicts nothing. */
  byteBudget: number | undefined
  canEvict: (sha256: string) => boolean | Promise<boolean>
  /** Whether this process has used the blob since the sweep began, or is putting it right now. */
  isInUse: (sha256: string) => boolean
  now: () => number
  failpoint?: Failpoint
}

/**
 * Removes temp files that nobody writes any more, `.meta` files that lost their `.bin` a day ago, and then blobs, the
 * least recently used first, until the rest fits the budget.
 *
 * @see spec 40
 */
export async function sweepStore(options: SweepOptions): Promise<SweepResult> {
  const { dir, fs, byteBudget, canEvict, isInUse, now, failpoint = noFailpoint } = options
  const bins: StoredFile[] = []
  const metas: StoredFile[] = []
  const nowMs = now()
  await walkStore(dir, fs, (file) => {
    if (file.kind === 'bin') bins.push(file)
    else if (file.kind === 'meta') metas.push(file)
    else if (isAbandonedTemp(file.name, file.mtimeMs, nowMs)) unlinkIfThere(fs, file.path)
  })
  removeOrphanMetas(options, bins, metas, nowMs)
  const result: SweepResult = { evicted: 0, freed: 0 }
  if (byteBudget === undefined) return result
  let total = bins.reduce((sum, file) => sum + file.sizeBytes, 0)
  bins.sort((a, b) => a.mtimeMs - b.mtimeMs || (a.name < b.name ? -1 : 1))
  for (const bin of bins) {
    if (total <= byteBudget) break
    if (isInUse(bin.name) || !(await canEvict(bin.name))) continue
    // From here to the unlink nothing is awaited: a put or get of this process either has marked the blob as used or
    // will find it gone. Another process shows in the mtime.
    if (isInUse(bin.name)) continue
    const stat = fs.lstatSync(bin.path, { throwIfNoEntry: false })
    if (stat !== undefined && stat.mtimeMs !== bin.mtimeMs) continue
    // The .bin goes first: without it the blob is gone, and its .meta alone means nothing.
    if (stat !== undefined && unlinkIfThere(fs, bin.path)) {
      result.evicted++
      result.freed += bin.sizeBytes
    }
    total -= bin.sizeBytes
    failpoint('blobs:bin-evicted')
    unlinkIfThere(fs, blobPaths(dir, bin.name).meta)
    failpoint('blobs:evicted')
  }
  return result
}

function removeOrphanMetas(
  { fs, isInUse }: SweepOptions,
  bins: readonly StoredFile[],
  metas: readonly StoredFile[],
  nowMs: number,
): void {
  const present = new Set(bins.map((file) => file.name))
  for (const meta of metas) {
    // A put renames its .meta a moment before its .bin, here or in another process: only an old one is an orphan.
    if (present.has(meta.name) || nowMs - meta.mtimeMs <= TEMP_GRACE_MS || isInUse(meta.name)) continue
    if (fs.lstatSync(`${meta.path.slice(0, -'.meta'.length)}.bin`, { throwIfNoEntry: false }) !== undefined) continue
    unlinkIfThere(fs, meta.path)
  }
}
