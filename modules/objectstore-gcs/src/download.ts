import { type FileHandle, open } from 'node:fs/promises'
import {
  type ByteRange,
  NexusError,
  ObjectNotFoundError,
  type OpOptions,
  quoteKey,
  replaceFile,
} from '@nexus/objectstore'
import { type Bucket, objectName, objectUrl } from './bucket.ts'
import type { ApiAnswer, ApiRequest } from './client/client.ts'
import { Crc32c } from './transfer/crc32c.ts'
import { GcsError, hasStatus } from './errors.ts'
import { isMissingObject } from './missing.ts'
import { withRetries } from './client/retry.ts'
import { Tally } from './transfer/tally.ts'

/** Permission bits of downloaded files, before the umask: sessions hold prompts and secrets. */
const LOCAL_MODE = 0o600
/** How often content with a wrong checksum is fetched again: once may be the wire, always is the store. */
const CHECKSUM_ATTEMPTS = 3

/** What one download is. */
export interface DownloadJob {
  key: string
  range: ByteRange
  signal: AbortSignal
  /** Called with bytes that arrived for the first time. */
  onBytes: (bytes: number) => void
}

/** Writes an object, or a range of it, to a local file through a temporary one beside it. */
export async function getObject(
  bucket: Bucket,
  key: string,
  localPath: string,
  { signal = new AbortController().signal, onProgress, ...range }: OpOptions & ByteRange,
): Promise<void> {
  signal.throwIfAborted()
  const tally = new Tally(0, onProgress)
  const job = { key, range, signal, onBytes: (bytes: number) => tally.moved(bytes) }
  const bytes = await replaceFile(localPath, key, (tempPath) => downloadTo(bucket, job, tempPath))
  onProgress?.({ objects: 1, bytes })
}

/**
 * Downloads to a new file. A transfer that breaks goes on where it broke, of the same generation. The whole content is
 * checked against the store's CRC32C, by us: nothing is left to the SDK, whose validation knows no ranges.
 *
 * @returns the size the file must have; undefined when the store did not say
 * @throws ObjectNotFoundError; NexusError `CORRUPT` when the content keeps failing its checksum
 */
export async function downloadTo(bucket: Bucket, job: DownloadJob, tempPath: string): Promise<number | undefined> {
  const file = await open(tempPath, 'wx', LOCAL_MODE)
  try {
    const download = new Download(bucket, job, file, tempPath)
    return await withRetries(
      bucket.retry,
      job.signal,
      () => download.advance(),
      () => download.mostBytes,
    )
  } catch (error) {
    job.signal.throwIfAborted()
    if (!hasStatus(error, 404) || !(await isMissingObject(bucket, error, job.signal))) throw error
    throw new ObjectNotFoundError(job.key, { cause: error })
  } finally {
    await file.close()
  }
}

class Download {
  readonly #bucket: Bucket
  readonly #job: DownloadJob
  readonly #file: FileHandle
  readonly #path: string
  #generation: string | undefined
  #received = 0
  #sum = new Crc32c()
  #checksumFailures = 0
  /** The most bytes that were ever there. */
  mostBytes = 0

  constructor(bucket: Bucket, job: DownloadJob, file: FileHandle, path: string) {
    this.#bucket = bucket
    this.#job = job
    this.#file = file
    this.#path = path
  }

  /** Goes on until everything is there. */
  async advance(): Promise<number | undefined> {
    const { key, range, signal } = this.#job
    if (range.length === 0) return this.#checkExists()
    // A range that broke off behind its last byte.
    if (range.length !== undefined && this.#received >= range.length) return this.#received
    const request: ApiRequest = {
      op: 'objects.get',
      method: 'GET',
      url: objectUrl(this.#bucket, objectName(this.#bucket, key), { alt: 'media', generation: this.#generation }),
      // Gzipped objects come as they are stored: unpacked on the way they have no size and no checksum.
      headers: { 'Accept-Encoding': 'gzip', ...this.#rangeHeader() },
      expected: [416],
      signal,
    }
    try {
      return await this.#bucket.client.send(request, (answer) => this.#receive(answer))
    } catch (error) {
      // The generation that was begun has been replaced.
      if (this.#generation === undefined || !hasStatus(error, 404)) throw error
      await this.#restart()
      throw new GcsError(request.op, error.message, { kind: 'network', code: undefined, sent: false })
    }
  }

  #rangeHeader(): Record<string, string> {
    const { offset = 0, length } = this.#job.range
    const first = offset + this.#received
    if (first === 0 && length === undefined) return {}
    return { Range: `bytes=${first}-${length === undefined ? '' : offset + length - 1}` }
  }

  async #receive(answer: ApiAnswer): Promise<number | undefined> {
    const { headers, status } = answer
    const { offset = 0, length } = this.#job.range
    const storedText = headers['x-goog-stored-content-length'] ?? totalOf(headers['content-range'])
    const storedBytes = storedText === undefined ? undefined : Number(storedText)
    if (status === 416) {
      await answer.text()
      // Nothing lies there.
      if (this.#received === 0) return 0
      // It broke off behind its last byte, and nothing has looked at its checksum.
      await this.#restart()
      throw new GcsError('objects.get', 'objects.get broke off', { kind: 'network', code: undefined, sent: true })
    }
    if (status === 200 && offset + this.#received > 0) {
      const message = 'objects.get was answered with the whole object instead of a range'
      throw new GcsError('objects.get', message, { kind: 'answer', status, reason: 'rangeIgnored' })
    }
    this.#generation = headers['x-goog-generation']
    if (this.#generation === undefined) {
      // A page of a proxy, say: the store names the generation of everything that it sends.
      const message = 'objects.get got an answer that is no object'
      throw new GcsError('objects.get', message, { kind: 'network', code: undefined, sent: true })
    }
    for await (const chunk of answer.chunks()) await this.#append(chunk)
    const expected =
      storedBytes === undefined ? undefined : Math.max(0, Math.min(length ?? Infinity, storedBytes - offset))
    if (expected !== undefined && this.#received < expected) {
      const message = `objects.get was cut: ${this.#received} bytes arrived of ${expected}`
      throw new GcsError('objects.get', message, { kind: 'network', code: undefined, sent: true })
    }
    const whole = offset === 0 && (length === undefined || (storedBytes !== undefined && length >= storedBytes))
    if (whole) await this.#checkSum(headers['x-goog-hash'])
    return expected
  }

  async #append(chunk: Buffer): Promise<void> {
    try {
      for (let done = 0; done < chunk.length;) {
        done += (await this.#file.write(chunk, done, chunk.length - done, this.#received + done)).bytesWritten
      }
    } catch (error) {
      // A failed write does not say of what, and a full disk must not be taken for an outage of the store.
      throw error instanceof Error ? Object.assign(error, { path: this.#path }) : error
    }
    this.#sum.update(chunk)
    this.#received += chunk.length
    if (this.#received <= this.mostBytes) return
    this.#job.onBytes(this.#received - this.mostBytes)
    this.mostBytes = this.#received
  }

  async #checkSum(hashes: string | undefined): Promise<void> {
    const declared = /(?:^|[,\s])crc32c=([^,\s]+)/.exec(hashes ?? '')?.[1]
    const actual = this.#sum.base64()
    if (declared === undefined || declared === actual) return
    await this.#restart()
    const message = `content of ${quoteKey(this.#job.key)} has CRC32C ${actual} and not ${declared}`
    this.#checksumFailures++
    if (this.#checksumFailures < CHECKSUM_ATTEMPTS) {
      throw new GcsError('objects.get', message, { kind: 'network', code: undefined, sent: true })
    }
    throw new NexusError('CORRUPT', message, { op: 'objectstore.get', key: this.#job.key })
  }

  async #restart(): Promise<void> {
    await this.#file.truncate(0)
    this.#sum = new Crc32c()
    this.#received = 0
    this.#generation = undefined
  }

  async #checkExists(): Promise<number> {
    const { key, signal } = this.#job
    const url = objectUrl(this.#bucket, objectName(this.#bucket, key), { fields: 'name' })
    await this.#bucket.client.send({ op: 'objects.get', method: 'GET', url, signal }, (answer) => answer.text())
    return 0
  }
}

function totalOf(contentRange: string | undefined): string | undefined {
  return /\/(\d+)$/.exec(contentRange ?? '')?.[1]
}
