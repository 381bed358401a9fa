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
import { AzureClient } from './client/client.ts'
import { openCredentials } from './client/credentials.ts'
import { ConditionalWrites } from './conditional.ts'
import { blobName, type Container } from './container.ts'
import { downloadTo, getObject } from './download.ts'
import { classifyAzureError } from './errors.ts'
import { validateAzureKey } from './keys.ts'
import { listNames, listObjects } from './list.ts'
import { parseAzureOptions } from './options.ts'
import { deleteObject } from './remove.ts'
import { putObject } from './upload.ts'

/**
 * A container of Azure Blob Storage.
 *
 * - `put` is repeated until it is in: the last write wins, so repeats converge. The store is told the content's MD5 before the
 *   content and refuses any other. A blob is replaced whole or not at all. Files above `block_threshold` go in blocks.
 * - Staged blocks of other writers are never discarded but by a commit; ours, discarded so, are staged again.
 * - The store is strongly consistent and answers when a blob is durable: `flush` waits for calls that were not awaited.
 * - `putIfAbsent` is one request with `If-None-Match: *`.
 * - Downloads are checked against size and MD5, and a broken one goes on where it broke, of the same version.
 *
 * @see docs/guides/object-storage.md
 */
export class AzureBackend implements Backend {
  readonly #container: Container
  readonly #calls = new DriverCalls('azure')
  readonly #name: (key: string) => string
  readonly #conditional: ConditionalWrites

  constructor(container: Container) {
    this.#container = container
    this.#conditional = new ConditionalWrites(container)
    this.#name = (key) => blobName(container, key)
  }

  async hydrate(keyPrefix: string, destDir: string, options: OpOptions = {}): Promise<void> {
    validateKeyPrefix(keyPrefix)
    this.#calls.begin('hydrate', options)
    const { onProgress: _, ...quiet } = options
    const objects = await listObjects(this.#container, keyPrefix, quiet)
    await hydrateObjects(
      objects,
      keyPrefix,
      destDir,
      ({ key, size }, tempPath, { signal, onWait, progress }) =>
        downloadTo(this.#container, { key, range: {}, listedBytes: size, signal, onWait, progress }, tempPath),
      { ...options, concurrency: this.#container.options.concurrency },
    )
  }

  async put(key: string, localPath: string, options: OpOptions = {}): Promise<void> {
    validateAzureKey(key, this.#name)
    this.#calls.begin('put', options)
    await this.#calls.change(putObject(this.#container, key, localPath, options))
  }

  async putIfAbsent(key: string, localPath: string, options: OpOptions = {}): Promise<boolean> {
    validateAzureKey(key, this.#name)
    this.#calls.begin('putIfAbsent', options)
    return await this.#calls.change(this.#conditional.create(key, localPath, options))
  }

  async get(key: string, localPath: string, options: OpOptions & ByteRange = {}): Promise<void> {
    validateAzureKey(key, this.#name)
    this.#calls.begin('get', options)
    await getObject(this.#container, key, localPath, options)
  }

  async delete(key: string, options: OpOptions = {}): Promise<void> {
    validateAzureKey(key, this.#name)
    this.#calls.begin('delete', options)
    await this.#calls.change(deleteObject(this.#container, key, options))
  }

  async list(keyPrefix: string, options: OpOptions = {}): Promise<ObjectInfo[]> {
    validateKeyPrefix(keyPrefix)
    this.#calls.begin('list', options)
    return await listObjects(this.#container, keyPrefix, options)
  }

  async listNames(keyPrefix: string, options: OpOptions = {}): Promise<string[]> {
    validateKeyPrefix(keyPrefix)
    this.#calls.begin('listNames', options)
    return await listNames(this.#container, keyPrefix, options)
  }

  async flush(options: OpOptions = {}): Promise<void> {
    await this.#calls.flush(options)
  }

  async close(): Promise<void> {
    this.#calls.close()
  }

  classify(error: unknown): ErrorClass | undefined {
    return classifyAzureError(error)
  }
}

/**
 * Opens a container. It must exist and is never made, but nothing of it is looked at: an outage at boot degrades. Credentials
 * are looked for with a short bound: where there are none for certain, opening fails; a source that does not answer is warned
 * of.
 *
 * @throws NexusError `INVALID_ARGUMENT` naming the key of the configuration that is wrong, or that no credentials are there
 */
export async function openAzureBackend(
  config: ObjectStoreConfig,
  { logger, signal = new AbortController().signal }: { logger: Logger; signal?: AbortSignal },
  { clock = systemClock }: { clock?: Clock } = {},
): Promise<AzureBackend> {
  const options = parseAzureOptions(config)
  signal.throwIfAborted()
  if (config.region !== '') {
    logger.warn({ region: config.region }, 'core.object_store.region means nothing to backend "azure" and is ignored')
  }
  const credentials = await openCredentials(options, { logger, signal })
  return new AzureBackend({ options, client: new AzureClient(options, credentials, clock), clock })
}
