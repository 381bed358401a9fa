import { resolve } from 'node:path'
import {
  type Backend,
  type ByteRange,
  type ErrorClass,
  type Logger,
  NexusError,
  type ObjectInfo,
  type ObjectStoreConfig,
  type OpOptions,
  validateKey,
  validateKeyPrefix,
} from '@nexus/objectstore'
import { classifyFsError } from './errors.ts'
import { keySegments } from './keys.ts'
import { type FsOptions, parseFsOptions } from './options.ts'
import type { WorkerInternals } from './worker/protocol.ts'
import { acquireWorker, type WorkerLease } from './worker/pool.ts'

export type { WorkerInternals } from './worker/protocol.ts'

/** How long opening waits for the bucket directory to answer, in ms. */
const OPEN_MS = 5_000

/**
 * A directory as the bucket.
 *
 * - `put` writes a temporary file, syncs it, renames it over the object and syncs the directory: readers and crashes see the
 *   old object or the new one, and one that resolved survives a power loss. `delete` is durable too, so `flush` has nothing
 *   left to do but wait for calls that were made without waiting.
 * - `putIfAbsent` is decided by link(2), across processes, and across hosts on a shared file system.
 * - Objects are at `<bucket>/<prefix>/<key>`. The one exception: where objects exist below a key, so that its path is a
 *   directory, the object of that key itself is in `\at-prefix/` beside that directory. Names that begin with a backslash
 *   are never keys.
 * - Symbolic links, FIFOs and devices in the bucket are not objects and are not followed.
 * - All file I/O happens on one thread per bucket, by synchronous calls. When the mount is dead, that thread hangs, calls
 *   run into their deadlines, and the rest of the process goes on.
 *
 * @see docs/guides/object-storage.md
 */
export class FsBackend implements Backend {
  readonly #bucket: string
  readonly #prefix: string
  readonly #lease: WorkerLease

  constructor(bucket: string, prefix: string, lease: WorkerLease) {
    this.#bucket = bucket
    this.#prefix = prefix
    this.#lease = lease
  }

  async hydrate(keyPrefix: string, destDir: string, options?: OpOptions): Promise<void> {
    validateKeyPrefix(keyPrefix)
    const operation = {
      op: 'hydrate',
      prefix: this.#prefix,
      key: keyPrefix,
      segments: this.#segments(keyPrefix),
      destination: resolve(destDir),
    } as const
    await this.#lease.call(operation, options)
  }

  async put(key: string, localPath: string, options?: OpOptions): Promise<void> {
    validateKey(key)
    const operation = { op: 'put', key, segments: this.#segments(key), localPath: resolve(localPath) } as const
    await this.#lease.call(operation, options)
  }

  async putIfAbsent(key: string, localPath: string, options?: OpOptions): Promise<boolean> {
    validateKey(key)
    const operation = { op: 'putIfAbsent', key, segments: this.#segments(key), localPath: resolve(localPath) } as const
    return this.#lease.call(operation, options)
  }

  async get(key: string, localPath: string, options: OpOptions & ByteRange = {}): Promise<void> {
    validateKey(key)
    const { offset, length } = options
    const range = { ...(offset === undefined ? {} : { offset }), ...(length === undefined ? {} : { length }) }
    const operation = { op: 'get', key, segments: this.#segments(key), localPath: resolve(localPath), range } as const
    await this.#lease.call(operation, options)
  }

  async delete(key: string, options?: OpOptions): Promise<void> {
    validateKey(key)
    await this.#lease.call({ op: 'delete', key, segments: this.#segments(key) }, options)
  }

  async list(keyPrefix: string, options?: OpOptions): Promise<ObjectInfo[]> {
    validateKeyPrefix(keyPrefix)
    const operation = { op: 'list', key: keyPrefix, segments: this.#segments(keyPrefix) } as const
    const found = await this.#lease.call(operation, options)
    return found.map(({ key, sizeBytes, storedAtMs }) => ({ key, size: sizeBytes, modTime: new Date(storedAtMs) }))
  }

  async listNames(keyPrefix: string, options?: OpOptions): Promise<string[]> {
    validateKeyPrefix(keyPrefix)
    return this.#lease.call({ op: 'listNames', key: keyPrefix, segments: this.#segments(keyPrefix) }, options)
  }

  async flush(options?: OpOptions): Promise<void> {
    await this.#lease.call({ op: 'flush' }, options)
  }

  async close(): Promise<void> {
    await this.#lease.release()
  }

  classify(error: unknown): ErrorClass | undefined {
    return classifyFsError(error)
  }

  #segments(key: string): string[] {
    return keySegments(this.#bucket, this.#prefix, key)
  }
}

/**
 * Opens a bucket directory. It must exist; it is never made, so that an unmounted mount point fails instead of filling the
 * disk beneath. A directory that does not answer within five seconds is an outage, not a mistake: the backend is opened
 * with a warning, and its calls fail until the mount is back.
 *
 * @param internals faults for tests; a backend with any has a worker of its own
 * @throws NexusError `INVALID_ARGUMENT` naming the key of the configuration that is wrong
 */
export async function openFsBackend(
  config: ObjectStoreConfig,
  { logger, signal }: { logger: Logger; signal?: AbortSignal },
  internals?: WorkerInternals,
): Promise<FsBackend> {
  const options = parseFsOptions(config)
  signal?.throwIfAborted()
  const lease = acquireWorker(options, logger, internals)
  try {
    await checkBucket(lease, options, logger, signal)
  } catch (error) {
    await lease.release()
    throw error
  }
  return new FsBackend(options.bucket, options.prefix, lease)
}

async function checkBucket(
  lease: WorkerLease,
  { bucket, requireMount }: FsOptions,
  logger: Logger,
  signal: AbortSignal | undefined,
): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const slow = new Promise<'slow'>((settle) => {
    timer = setTimeout(() => settle('slow'), OPEN_MS)
  })
  const check = lease.call({ op: 'open', requireMount }, signal === undefined ? {} : { signal })
  try {
    if ((await Promise.race([check, slow])) === 'slow') {
      check.catch(() => undefined)
      logger.warn({ bucket }, `the bucket directory has not answered within ${OPEN_MS / 1000} s; going on without it`)
    }
  } catch (error) {
    // An outage at open degrades; only what the configuration got wrong fails.
    if (!(error instanceof NexusError) && classifyFsError(error) === 'temporary') {
      logger.warn({ bucket, err: error }, 'the bucket directory can not be read now; going on without it')
      return
    }
    throw error
  } finally {
    clearTimeout(timer)
  }
}
