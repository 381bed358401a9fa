import {
  type Backend,
  type ByteRange,
  type ErrorClass,
  DriverCalls,
  hydrateObjects,
  type Logger,
  monotonicProgress,
  type ObjectInfo,
  type ObjectStoreConfig,
  type OpOptions,
  replaceFile,
  validateKey,
  validateKeyPrefix,
} from '@nexus/objectstore'
import { ConditionalWrites } from './conditional.ts'
import { Connection } from './client/connection.ts'
import { downloadObject } from './download.ts'
import { checkCredentials } from './client/check-credentials.ts'
import { classifyS3Error } from './errors.ts'
import { listNames, listRaw, withoutPlaceholders } from './list.ts'
import { abortUpload } from './transfer/parts.ts'
import { parseS3Options } from './options.ts'
import { deleteObject } from './remove.ts'
import { acquireClients } from './client/shared-clients.ts'
import { putObject } from './upload.ts'
import { UploadRecords } from './transfer/upload-records.ts'

/** Downloads of one hydration at a time: where stores level off. */
const HYDRATE_CONCURRENCY = 16
/** How long closing waits for uploads of ended processes to be aborted, in ms. */
const CLOSE_MS = 2_000

/**
 * A bucket of Amazon S3 or of a store that speaks its protocol.
 *
 * - An object is at `<prefix>/<key>`, nothing encoded. A `put` or `delete` that resolved is durable.
 * - Files up to 64 MiB are one request, larger ones a multipart upload, which a failure aborts. After a kill, the next process
 *   of this host aborts it; uploads of other hosts are never touched.
 * - `putIfAbsent` is decided by the store. On its first use a probe finds out whether the store does.
 * - Requests that failed for a passing reason are repeated within their caller's deadline, `putIfAbsent` never.
 * - Credentials that the store refused are resolved again for the next call.
 *
 * @see docs/guides/object-storage.md
 */
export class S3Backend implements Backend {
  readonly #connection: Connection
  readonly #records: UploadRecords
  readonly #conditional: ConditionalWrites
  readonly #logger: Logger
  readonly #stop = new AbortController()
  readonly #calls = new DriverCalls('s3')
  #reclaiming: Promise<void> | undefined

  constructor(connection: Connection, records: UploadRecords, logger: Logger) {
    this.#connection = connection
    this.#records = records
    this.#conditional = new ConditionalWrites(connection)
    this.#logger = logger
  }

  async hydrate(keyPrefix: string, destDir: string, options: OpOptions = {}): Promise<void> {
    validateKeyPrefix(keyPrefix)
    this.#calls.begin('hydrate', options)
    const { onProgress: _, ...quiet } = options
    const objects = await listRaw(this.#connection, keyPrefix, quiet)
    await hydrateObjects(
      objects,
      keyPrefix,
      destDir,
      ({ key, size }, tempPath, { signal, onWait, progress }) =>
        downloadObject(this.#connection, { key, tempPath, listedBytes: size, signal, onWait, progress }),
      { ...options, concurrency: HYDRATE_CONCURRENCY },
    )
  }

  async put(key: string, localPath: string, options: OpOptions = {}): Promise<void> {
    validateKey(key)
    this.#calls.begin('put', options)
    await this.#calls.change(putObject(this.#connection, this.#records, key, localPath, options))
    this.#reclaim()
  }

  async putIfAbsent(key: string, localPath: string, options: OpOptions = {}): Promise<boolean> {
    validateKey(key)
    this.#calls.begin('putIfAbsent', options)
    return this.#calls.change(this.#conditional.create(key, localPath, options))
  }

  async get(key: string, localPath: string, options: OpOptions & ByteRange = {}): Promise<void> {
    validateKey(key)
    this.#calls.begin('get', options)
    const { signal, onProgress, onWait, ...range } = options
    const progress = monotonicProgress(onProgress)
    const written = await replaceFile(localPath, key, (tempPath) =>
      downloadObject(this.#connection, { key, tempPath, signal, onWait, range, progress }),
    )
    progress.finished(written)
  }

  async delete(key: string, options: OpOptions = {}): Promise<void> {
    validateKey(key)
    this.#calls.begin('delete', options)
    await this.#calls.change(deleteObject(this.#connection, key, options))
  }

  async list(keyPrefix: string, options: OpOptions = {}): Promise<ObjectInfo[]> {
    validateKeyPrefix(keyPrefix)
    this.#calls.begin('list', options)
    return withoutPlaceholders(await listRaw(this.#connection, keyPrefix, options), keyPrefix)
  }

  async listNames(keyPrefix: string, options: OpOptions = {}): Promise<string[]> {
    validateKeyPrefix(keyPrefix)
    this.#calls.begin('listNames', options)
    return listNames(this.#connection, keyPrefix, options)
  }

  async flush(options: OpOptions = {}): Promise<void> {
    await this.#calls.flush(options)
  }

  async close(): Promise<void> {
    if (!this.#calls.close()) return
    const timer = setTimeout(() => this.#stop.abort(), CLOSE_MS)
    await this.#reclaiming
    clearTimeout(timer)
    this.#connection.release()
  }

  classify(error: unknown): ErrorClass | undefined {
    return classifyS3Error(error)
  }

  /** Once, when the store has been seen to answer, and beside the work: aborts what killed processes of this host left. */
  #reclaim(): void {
    this.#reclaiming ??= this.#abortAbandoned().catch((error: unknown) => {
      this.#logger.warn({ err: error }, 'multipart uploads of ended processes could not be aborted')
    })
  }

  async #abortAbandoned(): Promise<void> {
    const records = this.#records.takeAbandoned()
    let aborted = 0
    for (const record of records) {
      const gone = await abortUpload(this.#connection, record.key, record.uploadId, this.#stop.signal)
      if (!gone) continue
      this.#records.remove(record)
      aborted++
    }
    if (records.length === 0) return
    const { bucket } = this.#connection.options
    this.#logger.info({ bucket, uploads: records.length, aborted }, 'multipart uploads of ended processes aborted')
  }
}

/**
 * Opens a bucket, which must exist. No request is sent to it: a store that is out at boot must degrade, not fail. Credentials
 * are looked for with a short bound: where there are none for certain, opening fails; a source that does not answer is warned
 * of.
 *
 * @throws NexusError `INVALID_ARGUMENT` naming the key of the configuration that is wrong
 */
export async function openS3Backend(
  config: ObjectStoreConfig,
  { logger, signal }: { logger: Logger; signal?: AbortSignal },
): Promise<S3Backend> {
  const options = parseS3Options(config)
  signal?.throwIfAborted()
  const lease = await acquireClients(options)
  try {
    await checkCredentials(lease.shared, options, logger, signal)
  } catch (error) {
    lease.release()
    throw error
  }
  return new S3Backend(new Connection(options, lease), new UploadRecords(options, logger), logger)
}
