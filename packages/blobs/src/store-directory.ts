import { basename, dirname } from 'node:path'
import { systemCode } from '@nexus/errors'
import { holdDirectory, type HeldDirectory } from '@nexus/host'
import type { BlobFileSystem } from './file-system.ts'

/** Where the two files of a blob are, for system calls, as long as the shard they are in is held open. */
export interface HeldShard {
  readonly bin: string
  readonly meta: string
  /** A path in the shard, for a temp file. */
  at(name: string): string
  close(): void
}

/**
 * Opens the store's directory, never through a link at its name. The links above it are the caller's.
 *
 * @throws the system error: `ENOENT` when it is missing, `ENOTDIR` or `ELOOP` when something else is there
 */
export function holdStore(fs: BlobFileSystem, dir: string): HeldDirectory {
  return holdDirectory(dirname(dir), [basename(dir)], { fs })
}

/** Opens the directory of a blob, never through a link. Throws as {@link holdStore} does. */
export function holdShard(
  fs: BlobFileSystem,
  dir: string,
  sha256: string,
  { create = false }: { create?: boolean } = {},
): HeldShard {
  const held = holdDirectory(dirname(dir), [basename(dir), sha256.slice(0, 2)], { fs, create })
  return {
    bin: held.at(`${sha256}.bin`),
    meta: held.at(`${sha256}.meta`),
    at: (name) => held.at(name),
    close: () => held.close(),
  }
}

/** Whether a directory is not there as one: missing, or a link or a file in its place. */
export function isNoDirectory(error: unknown): boolean {
  const code = systemCode(error)
  return code === 'ENOENT' || code === 'ENOTDIR' || code === 'ELOOP'
}

/** Runs with the directory of a blob held open; undefined when there is none, or something else is in its place. */
export function withShard<T>(
  fs: BlobFileSystem,
  dir: string,
  sha256: string,
  run: (shard: HeldShard) => T,
): T | undefined {
  let shard: HeldShard
  try {
    shard = holdShard(fs, dir, sha256)
  } catch (error) {
    if (isNoDirectory(error)) return undefined
    throw error
  }
  try {
    return run(shard)
  } finally {
    shard.close()
  }
}
