import { noFailpoint, type SyncFailpoint } from '@nexus/host'
import { BucketIdentity } from '../disk/bucket-identity.ts'
import { DirectoryGroup } from '../disk/directory-group.ts'
import { DurableObjects } from '../disk/durable-objects.ts'
import type { FsFailpoint } from '../disk/failpoint.ts'
import { nodeFileSystem, type SyncFileSystem } from '../disk/file-system.ts'
import type { FsOptions } from '../options.ts'
import { TempDirectory } from '../disk/temp-directory.ts'

/** What the operations on one bucket share. Lives on the worker's thread. */
export interface BucketContext {
  /** Absolute path of the bucket directory. */
  readonly bucket: string
  readonly durable: boolean
  readonly directoryMode: number
  readonly fs: SyncFileSystem
  readonly identity: BucketIdentity
  readonly temps: TempDirectory
  readonly directories: DirectoryGroup
  readonly durableObjects: DurableObjects
  readonly failpoint: SyncFailpoint<FsFailpoint>
  /** Copies go through it, a chunk per synchronous step, so that memory stays flat whatever runs at once. */
  readonly chunk: Buffer
  /** What a chunk is compared with. */
  readonly otherChunk: Buffer
}

/** Bytes copied in one step, which nothing interrupts: on a mount of 16 KiB/s one takes 16 s, and less than 30 s must. */
const CHUNK_BYTES = 256 * 1024

export function createBucketContext(
  options: FsOptions,
  {
    fs = nodeFileSystem,
    failpoint = noFailpoint,
  }: { fs?: SyncFileSystem; failpoint?: SyncFailpoint<FsFailpoint> } = {},
): BucketContext {
  const { bucket, fsync, directoryMode, fileMode } = options
  return {
    bucket,
    durable: fsync,
    directoryMode,
    fs,
    identity: new BucketIdentity(bucket, fs),
    temps: new TempDirectory(bucket, fs, { file: fileMode, directory: directoryMode }),
    directories: new DirectoryGroup(fs, fsync),
    durableObjects: new DurableObjects(),
    failpoint,
    chunk: Buffer.allocUnsafeSlow(CHUNK_BYTES),
    otherChunk: Buffer.allocUnsafeSlow(CHUNK_BYTES),
  }
}
