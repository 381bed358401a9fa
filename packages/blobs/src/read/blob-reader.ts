import { constants } from 'node:buffer'
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import type { Readable } from 'node:stream'
import { isNexusError, NexusError } from '@nexus/errors'
import { BlobCorruptError, BlobNotFoundError } from '../blob-errors.ts'
import { blobInfo, type BlobContent, type BlobStat } from '../blob-info.ts'
import type { BlobFileSystem } from '../file-system.ts'
import { hashAll, openBlob, readAll, type OpenBlob } from './read-blob.ts'

export interface BlobReaderOptions {
  dir: string
  fs: BlobFileSystem
  onMiss: ((sha256: string) => Promise<boolean>) | undefined
  now: () => number
  /** Called synchronously whenever a blob was found and is about to be used. */
  onUse: (sha256: string) => void
}

/** Reads blobs, refreshes their turn for eviction, and repairs misses. The caller guarantees valid digests. */
export class BlobReader {
  readonly #options: BlobReaderOptions
  readonly #fs: BlobFileSystem
  readonly #repairs = new Map<string, Promise<boolean>>()

  constructor(options: BlobReaderOptions) {
    this.#options = options
    this.#fs = options.fs
  }

  async get(sha256: string, verify: boolean): Promise<BlobContent> {
    const open = await this.#openOrRepair(sha256, 'blobs.get')
    try {
      if (open.sizeBytes > constants.MAX_LENGTH) {
        throw new NexusError('UNSUPPORTED', `blob ${sha256} is too large for one buffer: open() streams it`, {
          op: 'blobs.get',
          key: sha256,
        })
      }
      const { meta } = open
      // A .meta that tells another size is the one cheap sign of a cut copy, so the bytes are looked at.
      const suspect = meta !== undefined && meta.sizeBytes !== open.sizeBytes
      const hash = verify || suspect ? createHash('sha256') : undefined
      const data = await readAll(this.#fs, open.fd, open.sizeBytes, hash)
      const actualSha256 = hash?.digest('hex') ?? sha256
      if (actualSha256 !== sha256) throw new BlobCorruptError([{ sha256, actualSha256 }], 'blobs.get')
      return { ...blobInfo(this.#options.dir, sha256, meta?.mediaType ?? '', data.length), data }
    } finally {
      this.#fs.closeSync(open.fd)
    }
  }

  async stream(sha256: string): Promise<Readable> {
    const open = await this.#openOrRepair(sha256, 'blobs.open')
    return createReadStream('', { fd: open.fd, start: 0, highWaterMark: 256 * 1024 })
  }

  async stat(sha256: string): Promise<BlobStat> {
    const open = await this.#openOrRepair(sha256, 'blobs.stat')
    this.#fs.closeSync(open.fd)
    const mediaType = open.meta?.mediaType ?? ''
    return { ...blobInfo(this.#options.dir, sha256, mediaType, open.sizeBytes), mtimeMs: open.mtimeMs }
  }

  /** Re-hashes one blob; gives its size in bytes. */
  async check(sha256: string, op: string): Promise<number> {
    const open = openBlob(this.#fs, this.#options.dir, sha256)
    if (open === undefined) throw new BlobNotFoundError(sha256, op)
    try {
      const actual = await hashAll(this.#fs, open.fd)
      if (actual.sha256 !== sha256) throw new BlobCorruptError([{ sha256, actualSha256: actual.sha256 }], op)
      return actual.sizeBytes
    } finally {
      this.#fs.closeSync(open.fd)
    }
  }

  /** An open blob that is now the most recently used one. The caller closes it. */
  async #openOrRepair(sha256: string, op: string): Promise<OpenBlob> {
    const { dir } = this.#options
    let open = openBlob(this.#fs, dir, sha256)
    if (open === undefined) {
      if (!(await this.#repair(sha256))) throw new BlobNotFoundError(sha256, op)
      await this.check(sha256, op)
      open = openBlob(this.#fs, dir, sha256)
      if (open === undefined) throw new BlobNotFoundError(sha256, op)
    }
    this.#options.onUse(sha256)
    try {
      const nowSeconds = this.#options.now() / 1000
      this.#fs.futimesSync(open.fd, nowSeconds, nowSeconds)
    } catch {
      // A read-only store or another owner's file: it still reads, only its turn for eviction stays what it was.
    }
    return open
  }

  /** One repair for all who miss the same blob at once. */
  #repair(sha256: string): Promise<boolean> {
    const { onMiss } = this.#options
    if (onMiss === undefined) return Promise.resolve(false)
    let repair = this.#repairs.get(sha256)
    if (repair === undefined) {
      repair = onMiss(sha256)
        .catch((error: unknown) => {
          if (isNexusError(error)) throw error
          throw new NexusError('UNAVAILABLE', `blob ${sha256} is not here and fetching it failed`, {
            op: 'blobs.repair',
            key: sha256,
            cause: error,
          })
        })
        .finally(() => this.#repairs.delete(sha256))
      this.#repairs.set(sha256, repair)
    }
    return repair
  }
}
