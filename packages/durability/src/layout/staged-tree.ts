import nodeFs from 'node:fs'
import { join } from 'node:path'
import { fromSystemError, isNexusError } from '@nexus/errors'
import type { Failpoint, Slices } from '@nexus/host'
import { SESSION_DIRECTORIES } from '../tree/names.ts'
import type { Committed } from '../tree/committed.ts'

const OWNER_ONLY_DIR = 0o700
const OWNER_ONLY_FILE = 0o600
const PERMISSION_BITS = 0o777

/** The part of `node:fs` that a hydration uses on its tree; tests hand in one that fails. */
export type HydrateFs = Pick<
  typeof nodeFs,
  'chmodSync' | 'lstatSync' | 'mkdirSync' | 'readdirSync' | 'renameSync' | 'symlinkSync' | 'truncateSync' | 'utimesSync'
>

/** Makes the directories that files go into. Each exists once it was asked for; none is ever a link. */
export class StagedTree {
  readonly dir: string
  readonly fs: HydrateFs
  readonly #made = new Set<string>([''])

  constructor(dir: string, fs: HydrateFs = nodeFs) {
    this.dir = dir
    this.fs = fs
  }

  /** The absolute path of a session-relative one, its parents made, writable for us. */
  place(path: string): string {
    const slash = path.lastIndexOf('/')
    if (slash !== -1) this.makeDir(path.slice(0, slash))
    return join(this.dir, path)
  }

  makeDir(path: string): void {
    if (this.#made.has(path)) return
    const slash = path.lastIndexOf('/')
    if (slash !== -1) this.makeDir(path.slice(0, slash))
    restoring(path, () => this.fs.mkdirSync(join(this.dir, path), { mode: OWNER_ONLY_DIR }))
    this.#made.add(path)
  }

  /** Makes the directories that every session begins with, where the tree has nothing by their names. */
  makeSessionDirs(): void {
    for (const name of SESSION_DIRECTORIES) {
      const found = restoring(name, () => this.fs.lstatSync(join(this.dir, name), { throwIfNoEntry: false }))
      if (found === undefined) this.makeDir(name)
    }
  }

  /** Everything was taken away. */
  forget(): void {
    this.#made.clear()
    this.#made.add('')
  }
}

/** Files that don't hold what was committed, because an interrupted commit overwrote them in place. */
export interface Mixture {
  generation: number
  reason: string
  /** Session-relative. */
  paths: string[]
}

/** What a layout put into a staged tree. */
export interface Restored {
  /** The commit as it is in the store. */
  committed: Committed
  /** What of it belongs on this machine. */
  content: Committed
  mixed?: Mixture
  objects: number
  bytes: number
}

/**
 * Gives a staged tree the modes, times, directories and links of its manifest.
 *
 * The order matters. While directories still let us write, files get modes and times, and empty directories appear. Links
 * come after everything that is set through a path, so that nothing is ever set through one, and before the modes of the
 * directories, which may forbid to put anything more into them. Those are set from the bottom up, since a parent may be
 * closed to us afterwards.
 *
 * @see docs/formats/object-store.md
 */
export async function restoreAttributes(
  tree: StagedTree,
  manifest: Committed,
  { slices, failpoint }: { slices: Slices; failpoint: Failpoint },
): Promise<void> {
  const dirs = Object.keys(manifest.dirs)
  for (const path of dirs) tree.makeDir(path)
  for (const path of manifest.objects) {
    if (slices.due) await slices.pause()
    restoreFile(tree, path, manifest)
  }
  await failpoint('hydrate:files-restored')
  for (const [path, { target }] of Object.entries(manifest.links)) {
    if (slices.due) await slices.pause()
    restoring(path, () => tree.fs.symlinkSync(target, tree.place(path)))
  }
  await failpoint('hydrate:links-made')
  for (const path of dirs.toSorted().toReversed()) {
    if (slices.due) await slices.pause()
    restoring(path, () =>
      tree.fs.chmodSync(join(tree.dir, path), (manifest.dirs[path]?.mode ?? OWNER_ONLY_DIR) & PERMISSION_BITS),
    )
  }
  await failpoint('hydrate:modes-set')
}

function restoreFile({ dir, fs }: StagedTree, path: string, { entries }: Committed): void {
  const entry = entries[path]
  const localPath = join(dir, path)
  restoring(path, () => {
    if (entry !== undefined) setTimes(fs, localPath, BigInt(entry.mtime_ns))
    // Set, not left to the umask; and after the times, which need no permission on a file of our own.
    fs.chmodSync(localPath, (entry?.mode ?? OWNER_ONLY_FILE) & PERMISSION_BITS)
  })
}

// Node takes seconds as a double and cuts it to microseconds: half a microsecond more keeps the rounding from cutting one
// off. It takes a negative number for "now", and only a Date for a time before 1970.
function setTimes(fs: HydrateFs, localPath: string, mtimeNs: bigint): void {
  const time = mtimeNs < 0n ? new Date(Number(mtimeNs / 1_000_000n)) : (Number(mtimeNs / 1000n) + 0.5) / 1e6
  fs.utimesSync(localPath, time, time)
}

/** Names the path of the session, not the one in the staging directory, which is gone when somebody reads the error. */
export function restoring<T>(path: string, run: () => T): T {
  try {
    return run()
  } catch (error) {
    throw isNexusError(error) ? error : fromSystemError(error, 'hydrate.restore', path)
  }
}
