import { setImmediate } from 'node:timers/promises'
import type { BlobFileSystem } from './file-system.ts'
import { SHARD_PATTERN } from './layout.ts'
import { isTempName } from './temp-file.ts'

/** How long the walk keeps the event loop in one go, in ms. */
const SLICE_MS = 4

const FILE_NAME = /^([0-9a-f]{64})\.(bin|meta)$/

/** A regular file of the store that the walk met. */
export interface StoredFile {
  kind: 'bin' | 'meta' | 'temp'
  /** The digest for `bin` and `meta`, else the file's name. */
  name: string
  path: string
  sizeBytes: number
  mtimeMs: number
}

/**
 * Visits every regular file of the store that is ours by its name, in slices of at most 4 ms. Links and strangers are
 * left out; a file that vanishes meanwhile is skipped. A store whose directory does not exist yet is empty.
 */
export async function walkStore(dir: string, fs: BlobFileSystem, visit: (file: StoredFile) => void): Promise<void> {
  let sliceStartMs = performance.now()
  const rest = async (): Promise<void> => {
    if (performance.now() - sliceStartMs < SLICE_MS) return
    await setImmediate()
    sliceStartMs = performance.now()
  }
  const look = (parent: string, shard: string | undefined, name: string): void => {
    const match = shard === undefined ? null : FILE_NAME.exec(name)
    const kind = match === null ? 'temp' : (match[2] as 'bin' | 'meta')
    if (kind === 'temp' && !isTempName(name)) return
    const digest = match?.[1]
    if (digest !== undefined && digest.slice(0, 2) !== shard) return
    const path = `${parent}/${name}`
    const stat = fs.lstatSync(path, { throwIfNoEntry: false })
    if (stat?.isFile() !== true) return
    visit({ kind, name: digest ?? name, path, sizeBytes: stat.size, mtimeMs: stat.mtimeMs })
  }
  for (const top of names(fs, dir)) {
    await rest()
    if (!SHARD_PATTERN.test(top)) {
      look(dir, undefined, top)
      continue
    }
    const shard = `${dir}/${top}`
    // A link in place of a shard would lead out of the store.
    if (fs.lstatSync(shard, { throwIfNoEntry: false })?.isDirectory() !== true) continue
    for (const name of names(fs, shard)) {
      look(shard, top, name)
      await rest()
    }
  }
}

function names(fs: BlobFileSystem, dir: string): string[] {
  try {
    return fs.readdirSync(dir)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
    throw error
  }
}
