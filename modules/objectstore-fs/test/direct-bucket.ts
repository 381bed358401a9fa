import { setImmediate } from 'node:timers/promises'
import { createBucketContext, type BucketContext } from '../src/object/bucket-context.ts'
import { runOperation } from '../src/worker/operations.ts'
import type { SyncFailpoint } from '@nexus/host'
import type { FsFailpoint } from '../src/disk/failpoint.ts'
import type { SyncFileSystem } from '../src/disk/file-system.ts'
import { keySegments } from '../src/keys.ts'
import type { FoundObject } from '../src/list.ts'

/** The operations of a bucket on this thread, without a worker: for tests that start many processes or inject faults. */
export interface DirectBucket {
  context: BucketContext
  put(key: string, localPath: string): Promise<void>
  create(key: string, localPath: string): Promise<boolean>
  get(key: string, localPath: string): Promise<void>
  delete(key: string): Promise<void>
  list(prefix: string): Promise<FoundObject[]>
}

const call = { signal: new AbortController().signal, turnIsOver: false, progress: () => setImmediate() }

export function openDirectBucket(
  bucket: string,
  injected: { fs?: SyncFileSystem; failpoint?: SyncFailpoint<FsFailpoint>; fsync?: boolean } = {},
): DirectBucket {
  const { fsync = true, ...rest } = injected
  const options = { bucket, prefix: '', fsync, requireMount: false, fileMode: 0o600, directoryMode: 0o700 }
  const context = createBucketContext(options, rest)
  const segments = (key: string): string[] => keySegments(bucket, '', key)
  const run = async (operation: Parameters<typeof runOperation>[1]): Promise<unknown> =>
    (await runOperation(context, operation, call)).value
  return {
    context,
    put: async (key, localPath) => void (await run({ op: 'put', key, segments: segments(key), localPath })),
    create: async (key, localPath) =>
      (await run({ op: 'putIfAbsent', key, segments: segments(key), localPath })) as boolean,
    get: async (key, localPath) => void (await run({ op: 'get', key, segments: segments(key), localPath, range: {} })),
    delete: async (key) => void (await run({ op: 'delete', key, segments: segments(key) })),
    list: async (key) => (await run({ op: 'list', key, segments: segments(key) })) as FoundObject[],
  }
}
