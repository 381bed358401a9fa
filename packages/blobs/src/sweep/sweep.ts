import { isAbandonedTemp, noFailpoint, TEMP_GRACE_MS, type SyncFailpoint } from '@nexus/host'
import type { BlobFailpoint } from '../failpoints.ts'
import { unlinkIfThere, type BlobFileSystem } from '../file-system.ts'
import { withShard } from '../store-directory.ts'
import { walkStore, type StoredFile } from './walk-store.ts'

/** What a sweep removed. Temp files are not counted. */
export interface SweepResult {
  /** Number of blobs. */
  evicted: number
  /** Bytes of their `.bin` files. */
  freed: number
  /** Bytes by which the store is still above its budget, because nothing more may be evicted now; 0 within the budget. */
  overBudgetBytes: number
}

export interface SweepOptions {
  dir: string
  fs: BlobFileSystem
  /** Bytes of `.bin` files to keep at most; undefined evicts nothing. */
  byteBudget: number | undefined
  /** Undefined: nothing keeps what is evicted, so all may go. */
  canEvict: ((sha256: string) => boolean | Promise<boolean>) | undefined
  /** Whether this process has used the blob since the sweep began, or is putting it right now. */
  isInUse: (sha256: string) => boolean
  now: () => number
  failpoint?: SyncFailpoint<BlobFailpoint>
}

/**
 * Removes temp files whose writer is gone, `.meta` files that lost their `.bin` a day ago, and then blobs, the least
 * recently used first, until the rest fits the budget.
 *
 * What `canEvict` releases can come back, and its `.meta` stays for that: a commit names both files, and the bytes of
 * neither may change.
 *
 * @see docs/formats/session-tree.md
 */
export async function sweepStore(options: SweepOptions): Promise<SweepResult> {
  const { dir, fs, byteBudget, canEvict, isInUse, now, failpoint = noFailpoint } = options
  const bins: StoredFile[] = []
  const metas: StoredFile[] = []
  const nowMs = now()
  await walkStore(dir, fs, (file) => {
    if (file.kind === 'bin') bins.push(file)
    else if (file.kind === 'meta') metas.push(file)
    else removeIfAbandoned(fs, file, nowMs)
  })
  await removeOrphanMetas(options, bins, metas, nowMs)
  const result: SweepResult = { evicted: 0, freed: 0, overBudgetBytes: 0 }
  if (byteBudget === undefined) return result
  let total = bins.reduce((sum, file) => sum + file.sizeBytes, 0)
  bins.sort((a, b) => a.mtimeMs - b.mtimeMs || (a.name < b.name ? -1 : 1))
  for (const bin of bins) {
    if (total <= byteBudget) break
    if (isInUse(bin.name) || !(await (canEvict?.(bin.name) ?? true))) continue
    // From here to the unlink nothing is awaited: a put or get of this process either has marked the blob as used or
    // will find it gone. Another process shows in the mtime.
    if (isInUse(bin.name)) continue
    const outcome = withShard(fs, dir, bin.name, (shard) => {
      const stat = fs.lstatSync(shard.bin, { throwIfNoEntry: false })
      if (stat !== undefined && stat.mtimeMs !== bin.mtimeMs) return 'used'
      // The .bin goes first: without it the blob is gone, and its .meta alone means nothing.
      const isEvicted = stat !== undefined && unlinkIfThere(fs, shard.bin)
      failpoint('blobs:bin-evicted')
      if (canEvict === undefined) unlinkIfThere(fs, shard.meta)
      failpoint('blobs:evicted')
      return isEvicted ? 'evicted' : 'gone'
    })
    if (outcome === 'used') continue
    total -= bin.sizeBytes
    if (outcome !== 'evicted') continue
    result.evicted++
    result.freed += bin.sizeBytes
  }
  result.overBudgetBytes = Math.max(0, total - byteBudget)
  return result
}

/** Removes the temp files that killed runs left. */
export async function removeAbandonedTemps(dir: string, fs: BlobFileSystem, nowMs: number): Promise<void> {
  await walkStore(dir, fs, (file) => removeIfAbandoned(fs, file, nowMs), { tempsOnly: true })
}

function removeIfAbandoned(fs: BlobFileSystem, { name, path, mtimeMs }: StoredFile, nowMs: number): void {
  if (isAbandonedTemp(name, mtimeMs, nowMs)) unlinkIfThere(fs, path)
}

async function removeOrphanMetas(
  { dir, fs, isInUse, canEvict }: SweepOptions,
  bins: readonly StoredFile[],
  metas: readonly StoredFile[],
  nowMs: number,
): Promise<void> {
  const present = new Set(bins.map((file) => file.name))
  for (const { name, mtimeMs } of metas) {
    // A put places its .meta a moment before its .bin, here or in another process: only an old one is an orphan.
    if (present.has(name) || nowMs - mtimeMs <= TEMP_GRACE_MS || (await canEvict?.(name))) continue
    if (isInUse(name)) continue
    withShard(fs, dir, name, ({ bin, meta }) => {
      if (fs.lstatSync(bin, { throwIfNoEntry: false }) === undefined) unlinkIfThere(fs, meta)
    })
  }
}
