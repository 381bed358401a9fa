import { setImmediate } from 'node:timers/promises'
import { holdDirectory, isEngineTempName, type HeldDirectory } from '@nexus/host'
import { basename, dirname } from 'node:path'
import type { BlobFileSystem } from '../file-system.ts'
import { SHARD_PATTERN } from '../layout.ts'
import { holdStore, isNoDirectory } from '../store-directory.ts'

/** How long the walk keeps the event loop in one go, in ms. */
const SLICE_MS = 4

const FILE_NAME = /^([0-9a-f]{64})\.(bin|meta)$/

/** A regular file of the store that the walk met. */
export interface StoredFile {
  kind: 'bin' | 'meta' | 'temp'
  /** The digest for `bin` and `meta`, else the file's name. */
  name: string
  /** For system calls, during the visit only: its directory is held open for that long. */
  path: string
  sizeBytes: number
  mtimeMs: number
}

/** What {@link walkStore} visits. */
export interface WalkOptions {
  /** Leaves out blobs, and so the look at each of their files. */
  tempsOnly?: boolean
}

/**
 * Visits every regular file of the store that is ours by its name, in slices of at most 4 ms. Links and strangers are
 * left out; a file that vanishes meanwhile is skipped. A store whose directory does not exist yet is empty.
 */
export async function walkStore(
  dir: string,
  fs: BlobFileSystem,
  visit: (file: StoredFile) => void,
  { tempsOnly = false }: WalkOptions = {},
): Promise<void> {
  let sliceStartMs = performance.now()
  const rest = async (): Promise<void> => {
    if (performance.now() - sliceStartMs < SLICE_MS) return
    await setImmediate()
    sliceStartMs = performance.now()
  }
  const look = (parent: HeldDirectory, shard: string | undefined, name: string): void => {
    const match = shard === undefined ? null : FILE_NAME.exec(name)
    const kind = match === null ? 'temp' : (match[2] as 'bin' | 'meta')
    if (kind === 'temp' ? !isEngineTempName(name) : tempsOnly) return
    const digest = match?.[1]
    if (digest !== undefined && digest.slice(0, 2) !== shard) return
    const path = parent.at(name)
    const stat = fs.lstatSync(path, { throwIfNoEntry: false })
    if (stat?.isFile() !== true) return
    visit({ kind, name: digest ?? name, path, sizeBytes: stat.size, mtimeMs: stat.mtimeMs })
  }
  await within(
    fs,
    () => holdStore(fs, dir),
    async (store, tops) => {
      for (const top of tops) {
        await rest()
        if (!SHARD_PATTERN.test(top)) {
          look(store, undefined, top)
          continue
        }
        // A link in place of a shard would lead out of the store.
        await within(
          fs,
          () => holdDirectory(dirname(dir), [basename(dir), top], { fs }),
          async (shard, names) => {
            for (const name of names) {
              look(shard, top, name)
              await rest()
            }
          },
        )
      }
    },
  )
}

/** Runs with a directory held open and its names; not at all when it is no directory. */
async function within(
  fs: BlobFileSystem,
  hold: () => HeldDirectory,
  run: (held: HeldDirectory, names: string[]) => Promise<void>,
): Promise<void> {
  let held: HeldDirectory
  try {
    held = hold()
  } catch (error) {
    if (isNoDirectory(error)) return
    throw error
  }
  try {
    await run(held, fs.readdirSync(held.at('.')))
  } finally {
    held.close()
  }
}
