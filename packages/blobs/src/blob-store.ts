import { resolve } from 'node:path'
import type { Readable } from 'node:stream'
import { fromSystemError, isNexusError, NexusError, systemCode } from '@nexus/errors'
import { noFailpoint, type Clock, type Logger, type SyncFailpoint } from '@nexus/host'
import { blobInfo, type BlobContent, type BlobInfo, type BlobStat } from './blob-info.ts'
import { BlobReader } from './read/blob-reader.ts'
import { chunksOf, untilAborted, type BlobSource } from './write/blob-source.ts'
import { isDigest, parseBlobRef } from './blob-uri.ts'
import { BlobWriter, type WrittenBlob } from './write/blob-writer.ts'
import type { BlobFailpoint } from './failpoints.ts'
import { nodeFileSystem, unlinkIfThere, type BlobFileSystem } from './file-system.ts'
import { Lane } from './write/lane.ts'
import { mediaTypeFault } from './layout.ts'
import { withShard } from './store-directory.ts'
import { removeAbandonedTemps, sweepStore, type SweepResult } from './sweep/sweep.ts'
import { verifyStore, type VerifyResult } from './read/verify.ts'
import { walkStore } from './sweep/walk-store.ts'

/** Larger bytes are streamed, so that hashing them does not hold up the event loop. */
const INLINE_PUT_BYTES = 512 * 1024

/** How {@link BlobStore.open} opens. */
export interface BlobStoreOptions {
  /** Bytes that `sweep` reduces the `.bin` files to. Default: it evicts nothing. */
  byteBudget?: number
  /**
   * Called after a *new* blob is on disk, before its put resolves. What it throws is logged and never fails the put: the
   * blob is there.
   */
  onPut?: (blob: BlobInfo) => void
  /**
   * Asked before a blob is evicted: true when it is held elsewhere and can come back. Its `.meta` stays then, so that the
   * same bytes keep their first media type. Without the hook everything may go, for good.
   */
  canEvict?: (sha256: string) => boolean | Promise<boolean>
  /**
   * Asked to bring a missing blob back, by a put with `announce: false` into this store or by placing the files
   * themselves; true means that it did. Its bytes are verified before they are used. Concurrent misses share one call.
   * A rejection reaches the caller, as `UNAVAILABLE` unless it is a NexusError already: an outage is no miss.
   */
  onMiss?: (sha256: string) => Promise<boolean>
  /** Whether a put that resolved survives a power loss. Default true. Without it a crash may leave torn blobs. */
  fsync?: boolean
  logger?: Pick<Logger, 'warn'>
  failpoint?: SyncFailpoint<BlobFailpoint>
  fs?: BlobFileSystem
  clock?: Pick<Clock, 'now'>
}

/** What {@link BlobStore.put} takes besides the bytes and their media type. */
export interface BlobPutOptions {
  /** Stops a put that is waiting for its source or its turn; the put rejects with the signal's reason. */
  signal?: AbortSignal | undefined
  /** The digest the bytes must have; with other bytes the put rejects with {@link BlobCorruptError} and stores nothing. */
  sha256?: string
  /** Whether `onPut` hears of it. Default true. */
  announce?: boolean
}

/**
 * A content-addressed store in one local directory: `<xx>/<sha256>.bin` with the bytes, `.meta` beside it with the media
 * type. Safe for any number of concurrent calls, and for several processes on one directory. The directory is made by
 * the first put.
 *
 * Every method takes a bare digest or a `nexus-blob:` uri and throws `INVALID_ARGUMENT` for anything else. What the local
 * disk refuses is a `NexusError` with code `LOCAL_IO` or `PERMISSION` and the cause.
 *
 * @see docs/formats/session-tree.md
 */
export class BlobStore {
  readonly dir: string
  readonly #options: BlobStoreOptions
  readonly #fs: BlobFileSystem
  readonly #writer: BlobWriter
  readonly #reader: BlobReader
  readonly #lane = new Lane()
  /** Blobs used since the running sweeps began. */
  readonly #usedDuringSweep = new Set<string>()
  #sweeps = 0
  #closed = false
  #tidying: Promise<void> | undefined

  private constructor(dir: string, options: BlobStoreOptions) {
    this.dir = resolve(dir)
    this.#options = options
    this.#fs = options.fs ?? nodeFileSystem
    this.#writer = new BlobWriter({
      dir: this.dir,
      fs: this.#fs,
      durable: options.fsync ?? true,
      failpoint: options.failpoint ?? noFailpoint,
      now: () => this.#now(),
      onUse: (sha256) => this.#noteUse(sha256),
      onMetaError: (error, path) => {
        options.logger?.warn({ err: error, path }, 'the media type of a blob could not be made durable')
      },
    })
    this.#reader = new BlobReader({
      dir: this.dir,
      fs: this.#fs,
      onMiss: options.onMiss,
      now: () => this.#now(),
      onUse: (sha256) => this.#noteUse(sha256),
    })
  }

  /**
   * A store over `dir`. Touches nothing on disk.
   *
   * @throws NexusError `INVALID_ARGUMENT` for a budget that is no byte count
   */
  static open(dir: string, options: BlobStoreOptions = {}): BlobStore {
    checkBudget(options.byteBudget, 'blobs.open')
    return new BlobStore(dir, options)
  }

  /**
   * Stores bytes and resolves once they are durable. The same bytes again only make the blob the most recently used, and
   * give the media type of the first put.
   */
  async put(source: BlobSource, mediaType = '', options: BlobPutOptions = {}): Promise<BlobInfo> {
    const { signal, announce = true, sha256: expected } = options
    if (this.#closed)
      throw new NexusError('CLOSED', `the blob store at ${this.dir} takes no more blobs`, { op: 'blobs.put' })
    const fault = mediaTypeFault(mediaType)
    if (fault !== undefined) {
      throw new NexusError('INVALID_ARGUMENT', `bad media type ${JSON.stringify(mediaType)}: ${fault}`, {
        op: 'blobs.put',
      })
    }
    if (expected !== undefined && !isDigest(expected)) {
      throw new NexusError('INVALID_ARGUMENT', 'sha256 is 64 lowercase hex digits', { op: 'blobs.put' })
    }
    signal?.throwIfAborted()
    this.#tidy()
    const written =
      source instanceof Uint8Array && source.length <= INLINE_PUT_BYTES
        ? await this.#putBytes(source, mediaType, signal, expected)
        : await this.#putChunks(source, mediaType, signal, expected)
    const info = blobInfo(this.dir, written.sha256, written.mediaType, written.sizeBytes)
    if (written.isNew && announce) this.#announce(info)
    return info
  }

  /** Takes no more blobs: a later `put` rejects with `CLOSED`. Reading goes on. */
  close(): void {
    this.#closed = true
  }

  /**
   * The blob's bytes, at most what one Buffer holds (use {@link open} for more).
   *
   * @throws BlobNotFoundError on a miss
   * @throws BlobCorruptError when the bytes don't have their digest; looked for with `verify`, after a repair, and when
   *   the size isn't the one in `.meta`
   */
  async get(shaOrUri: string, options: { verify?: boolean } = {}): Promise<BlobContent> {
    const sha256 = parseBlobRef(shaOrUri)
    this.#tidy()
    return this.#wrapped('blobs.get', sha256, () => this.#reader.get(sha256, options.verify ?? false))
  }

  /**
   * The blob's bytes as a stream; an eviction meanwhile does not cut it.
   *
   * @throws BlobNotFoundError on a miss
   */
  async open(shaOrUri: string): Promise<Readable> {
    const sha256 = parseBlobRef(shaOrUri)
    this.#tidy()
    return this.#wrapped('blobs.open', sha256, () => this.#reader.stream(sha256))
  }

  /** @throws BlobNotFoundError on a miss */
  async stat(shaOrUri: string): Promise<BlobStat> {
    const sha256 = parseBlobRef(shaOrUri)
    this.#tidy()
    return this.#wrapped('blobs.stat', sha256, () => this.#reader.stat(sha256))
  }

  /** Whether the blob is on the local disk. Repairs nothing and refreshes nothing. */
  async has(shaOrUri: string): Promise<boolean> {
    const sha256 = parseBlobRef(shaOrUri)
    return this.#wrapped('blobs.has', sha256, () => {
      const stat = withShard(this.#fs, this.dir, sha256, ({ bin }) => {
        return this.#fs.lstatSync(bin, { throwIfNoEntry: false })
      })
      return Promise.resolve(stat?.isFile() === true)
    })
  }

  /**
   * Removes the local blob, and tells whether there was one. Nothing remote is touched; the `.meta` of a blob that
   * `canEvict` says is held elsewhere stays.
   */
  async delete(shaOrUri: string): Promise<boolean> {
    const sha256 = parseBlobRef(shaOrUri)
    return this.#wrapped('blobs.delete', sha256, async () => {
      const isHeldElsewhere = (await this.#options.canEvict?.(sha256)) ?? false
      const existed = withShard(this.#fs, this.dir, sha256, ({ bin, meta }) => {
        const removed = unlinkIfThere(this.#fs, bin)
        if (!isHeldElsewhere) unlinkIfThere(this.#fs, meta)
        return removed
      })
      return existed ?? false
    })
  }

  /** Bytes of all `.bin` files. */
  async totalBytes(): Promise<number> {
    let total = 0
    await this.#wrapped('blobs.totalBytes', this.dir, () =>
      walkStore(this.dir, this.#fs, (file) => {
        if (file.kind === 'bin') total += file.sizeBytes
      }),
    )
    return total
  }

  /**
   * Re-hashes one blob, or all of them.
   *
   * @throws BlobCorruptError for bytes that don't have their digest; for a whole store after everything was read
   * @throws BlobNotFoundError for a named blob that is not there
   */
  async verify(shaOrUri?: string, options: { signal?: AbortSignal | undefined } = {}): Promise<VerifyResult> {
    if (shaOrUri === undefined) {
      return this.#wrapped('blobs.verify', this.dir, () => verifyStore(this.dir, this.#fs, options.signal))
    }
    const sha256 = parseBlobRef(shaOrUri)
    return this.#wrapped('blobs.verify', sha256, async () => ({
      blobs: 1,
      bytes: await this.#reader.check(sha256, 'blobs.verify'),
    }))
  }

  /**
   * Evicts the least recently used blobs until the rest is within `byteBudget`, except those that `canEvict` keeps or
   * that are used meanwhile, and removes temp files of writers that died. Local only: the object store keeps its copies.
   * `overBudgetBytes` of the result says whether the budget was reached.
   *
   * @param options `byteBudget` for this sweep, in place of the store's own
   * @throws NexusError `INVALID_ARGUMENT` for a budget that is no byte count
   */
  async sweep({ byteBudget = this.#options.byteBudget }: { byteBudget?: number } = {}): Promise<SweepResult> {
    checkBudget(byteBudget, 'blobs.sweep')
    this.#sweeps++
    try {
      return await this.#wrapped('blobs.sweep', this.dir, () =>
        sweepStore({
          dir: this.dir,
          fs: this.#fs,
          byteBudget,
          canEvict: this.#options.canEvict,
          isInUse: (sha256) => this.#usedDuringSweep.has(sha256) || this.#writer.isInFlight(sha256),
          now: () => this.#now(),
          failpoint: this.#options.failpoint ?? noFailpoint,
        }),
      )
    } finally {
      if (--this.#sweeps === 0) this.#usedDuringSweep.clear()
    }
  }

  /**
   * Resolves when the media types of all puts that resolved are durable too, and what killed runs left is gone. Both
   * happen by themselves within moments, so only a test or a measurement needs to wait.
   */
  async flush(): Promise<void> {
    await Promise.all([this.#writer.flush(), this.#tidying])
  }

  /** Removes what killed runs left, once, in the background of the first use: many a store is never swept. */
  #tidy(): void {
    this.#tidying ??= removeAbandonedTemps(this.dir, this.#fs, this.#now()).catch((error: unknown) => {
      this.#options.logger?.warn({ err: error, path: this.dir }, 'temp files of a killed run could not be removed')
    })
  }

  async #putBytes(
    data: Uint8Array,
    mediaType: string,
    signal: AbortSignal | undefined,
    expected: string | undefined,
  ): Promise<WrittenBlob> {
    const admission = this.#lane.enter()
    if (admission !== undefined) await admission
    try {
      signal?.throwIfAborted()
      return await this.#writer.putBytes(data, mediaType, this.#lane.active > 1, expected)
    } catch (error) {
      throw signal?.aborted === true && error === signal.reason ? error : wrap(error, 'blobs.put', this.dir)
    } finally {
      this.#lane.leave()
    }
  }

  async #putChunks(
    source: BlobSource,
    mediaType: string,
    signal: AbortSignal | undefined,
    expected: string | undefined,
  ): Promise<WrittenBlob> {
    let failure: { error: unknown } | undefined
    // The source's own errors reach the caller as they are; only those of our files are wrapped.
    const chunks = tapErrors(untilAborted(chunksOf(source, this.#fs), source, signal), (error) => {
      failure = { error }
    })
    try {
      return await this.#writer.putChunks(chunks, mediaType, expected)
    } catch (error) {
      throw failure?.error === error ? error : wrap(error, 'blobs.put', this.dir)
    }
  }

  #announce(info: BlobInfo): void {
    try {
      this.#options.onPut?.(info)
    } catch (error) {
      this.#options.logger?.warn(
        { err: error, sha256: info.sha256 },
        'onPut of the blob store threw; the blob is stored',
      )
    }
  }

  #noteUse(sha256: string): void {
    if (this.#sweeps > 0) this.#usedDuringSweep.add(sha256)
  }

  #now(): number {
    return this.#options.clock?.now() ?? Date.now()
  }

  async #wrapped<T>(op: string, path: string, work: () => Promise<T>): Promise<T> {
    try {
      return await work()
    } catch (error) {
      throw wrap(error, op, path)
    }
  }
}

function checkBudget(byteBudget: number | undefined, op: string): void {
  if (byteBudget === undefined || byteBudget >= 0) return
  throw new NexusError('INVALID_ARGUMENT', `byteBudget is a number of bytes, not ${byteBudget}`, { op })
}

function wrap(error: unknown, op: string, path: string): unknown {
  return isNexusError(error) || systemCode(error) === undefined ? error : fromSystemError(error, op, path)
}

async function* tapErrors(
  chunks: AsyncIterable<Uint8Array>,
  onError: (error: unknown) => void,
): AsyncIterable<Uint8Array> {
  try {
    yield* chunks
  } catch (error) {
    onError(error)
    throw error
  }
}
