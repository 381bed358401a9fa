import {
  type Backend,
  type ByteRange,
  type Clock,
  DriverCalls,
  type ErrorClass,
  hydrateObjects,
  type Logger,
  type ObjectInfo,
  type ObjectStoreConfig,
  type OpOptions,
  systemClock,
  validateKeyPrefix,
} from '@nexus/objectstore'
import { type Bucket, objectName } from './bucket.ts'
import { GcsClient } from './client/client.ts'
import { ConditionalWrites } from './conditional.ts'
import { type CredentialInternals, openCredentials } from './client/credentials.ts'
import { downloadTo, getObject } from './download.ts'
import { classifyGcsError } from './errors.ts'
import { listNames, listObjects } from './list.ts'
import { validateGcsKey } from './keys.ts'
import { parseGcsOptions } from './options.ts'
import { deleteObject } from './remove.ts'
import { putObject } from './upload.ts'

export type { CredentialInternals } from './client/credentials.ts'

/**
 * A bucket of Google Cloud Storage.
 *
 * - `put` is repeated until it is in: the last write wins, so repeats converge. The store is told the content's CRC32C
 *   before the content and refuses any other. An object is replaced whole or not at all. Files above
 *   `resumable_threshold` go in chunks, and a broken upload goes on where it broke.
 * - The store is strongly consistent and answers when an object is durable: `flush` waits for calls that were not awaited.
 * - `putIfAbsent` is one request with `ifGenerationMatch=0`.
 * - Downloads are checked against size and CRC32C, and a broken one goes on where it broke, of the same generation.
 * - Every request takes the caller's signal. Two things outlive it, each for a bounded time: a look-up of credentials (the
 *   SDK takes no signal there; its outcome is ignored), and the order to forget a given-up upload, two seconds.
 *
 * @see docs/guides/object-storage.md
 */
export class GcsBackend implements Backend {
  readonly #bucket: Bucket
  readonly #calls = new DriverCalls('gcs')
  readonly #name: (key: string) => string
  readonly #conditional: ConditionalWrites

  constructor(bucket: Bucket) {
    this.#bucket = bucket
    this.#conditional = new ConditionalWrites(bucket)
    this.#name = (key) => objectName(bucket, key)
  }

  async hydrate(keyPrefix: string, destDir: string, options: OpOptions = {}): Promise<void> {
    this.#calls.begin('hydrate', options)
    validateKeyPrefix(keyPrefix)
    const { concurrency } = this.#bucket.options
    const { onProgress: _, ...quiet } = options
    const objects = await listObjects(this.#bucket, keyPrefix, quiet)
    await hydrateObjects(
      objects,
      keyPrefix,
      destDir,
      ({ key, size }, tempPath, { signal, onWait, progress }) =>
        downloadTo(this.#bucket, { key, range: {}, listedBytes: size, signal, onWait, progress }, tempPath),
      { ...options, concurrency },
    )
  }

  async put(key: string, localPath: string, options: OpOptions = {}): Promise<void> {
    validateGcsKey(key, this.#name)
    this.#calls.begin('put', options)
    await this.#calls.change(putObject(this.#bucket, key, localPath, options))
  }

  async putIfAbsent(key: string, localPath: string, options: OpOptions = {}): Promise<boolean> {
    validateGcsKey(key, this.#name)
    this.#calls.begin('putIfAbsent', options)
    return await this.#calls.change(this.#conditional.create(key, localPath, options))
  }

  async get(key: string, localPath: string, options: OpOptions & ByteRange = {}): Promise<void> {
    validateGcsKey(key, this.#name)
    this.#calls.begin('get', options)
    await getObject(this.#bucket, key, localPath, options)
  }

  async delete(key: string, options: OpOptions = {}): Promise<void> {
    validateGcsKey(key, this.#name)
    this.#calls.begin('delete', options)
    await this.#calls.change(deleteObject(this.#bucket, key, options))
  }

  async list(keyPrefix: string, options: OpOptions = {}): Promise<ObjectInfo[]> {
    validateKeyPrefix(keyPrefix)
    this.#calls.begin('list', options)
    return await listObjects(this.#bucket, keyPrefix, options)
  }

  async listNames(keyPrefix: string, options: OpOptions = {}): Promise<string[]> {
    validateKeyPrefix(keyPrefix)
    this.#calls.begin('listNames', options)
    return await listNames(this.#bucket, keyPrefix, options)
  }

  async flush(options: OpOptions = {}): Promise<void> {
    await this.#calls.flush(options)
  }

  async close(): Promise<void> {
    this.#calls.close()
    await Promise.all(this.#bucket.background)
    this.#bucket.client.close()
  }

  classify(error: unknown): ErrorClass | undefined {
    return classifyGcsError(error)
  }
}

/** What tests put in the place of the world. */
export interface GcsInternals extends CredentialInternals {
  clock?: Clock
}

/**
 * Opens a bucket. It must exist and is never made, but nothing of it is looked at: an outage at boot degrades. Credentials are
 * looked for on this host, for five seconds at most.
 *
 * @throws NexusError `INVALID_ARGUMENT` naming the key of the configuration that is wrong, or that no credentials are there
 */
export async function openGcsBackend(
  config: ObjectStoreConfig,
  { logger, signal = new AbortController().signal }: { logger: Logger; signal?: AbortSignal },
  internals: GcsInternals = {},
): Promise<GcsBackend> {
  const options = parseGcsOptions(config)
  signal.throwIfAborted()
  if (config.region !== '') {
    logger.warn({ region: config.region }, 'core.object_store.region means nothing to backend "gcs" and is ignored')
  }
  const { clock = systemClock } = internals
  const credentials = await openCredentials(options, { logger, clock, signal }, internals)
  const client = new GcsClient(options, credentials, clock)
  return new GcsBackend({ options, client, clock, background: new Set() })
}
