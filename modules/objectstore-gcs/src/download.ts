import { type FileHandle, open } from 'node:fs/promises'
import {
  type ByteRange,
  Crc32c,
  monotonicProgress,
  NexusError,
  ObjectNotFoundError,
  type OpOptions,
  quoteKey,
  rangeHeader,
  replaceFile,
  type TransferProgress,
  type Waiter,
} from '@nexus/objectstore'
import { type Bucket, objectName, objectUrl, repeat } from './bucket.ts'
import type { ApiAnswer, ApiRequest } from './client/client.ts'
import { base64Of } from './transfer/crc32c.ts'
import { GcsError, hasStatus } from './errors.ts'
import { isMissingObject } from './missing.ts'

/** Permission bits of downloaded files, before the umask: sessions hold prompts and secrets. */
const LOCAL_MODE = 0o600
/** How often content with a wrong checksum is fetched again: once may be the wire, always is the store. */
const CHECKSUM_ATTEMPTS = 3

/** What one download is. */
export interface DownloadJob extends Waiter {
  key: string
  range: ByteRange
  signal: AbortSignal
  /** What the listing said. */
  listedBytes?: number
  progress: Pick<TransferProgress, 'begin' | 'moved'>
}

/** Writes an object, or a range of it, to a local file through a temporary one beside it. */
export async function getObject(
  bucket: Bucket,
  key: string,
  localPath: string,
  { signal = new AbortController().signal, onProgress, onWait, ...range }: OpOptions & ByteRange,
): Promise<void> {
  signal.throwIfAborted()
  const progress = monotonicProgress(onProgress)
  const job = { key, range, signal, onWait, progress }
  const bytes = await replaceFile(localPath, key, (tempPath) => downloadTo(bucket, job, tempPath))
  progress.finished(bytes)
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
    return await repeat(
      bucket,
      job,
      () => download.advance(),
      () => download.mostBytes,
    )
  } catch (error) {
    job.signal.throwIfAborted()
    if (!(await isMissingObject(bucket, error, job))) throw error
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
    const { key, range, signal, onWait, listedBytes } = this.#job
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
      answerBytes: listedBytes ?? range.length,
      signal,
      onWait,
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
    const rest = length === undefined ? {} : { length: length - this.#received }
    const range = rangeHeader({ offset: offset + this.#received, ...rest })
    return range === undefined ? {} : { Range: range }
  }

  async #receive(answer: ApiAnswer): Promise<number | undefined> {
    const { headers, status } = answer
    const { offset = 0, length } = this.#job.range
    const storedBytes = storedBytesOf(answer)
    if (status === 416) {
      await answer.text()
      // Nothing lies there.
      if (this.#received === 0) return 0
      // It broke off behind its last byte, and nothing has looked at its checksum.
      await this.#restart()
      throw new GcsError('objects.get', 'objects.get broke off', { kind: 'network', code: undefined, sent: true })
    }
    const first = offset + this.#received
    const began = status === 206 ? Number(/^bytes (\d+)-/.exec(headers['content-range'] ?? '')?.[1]) : 0
    if (began !== first) {
      const message = `objects.get was asked for bytes from ${first} on and answered with bytes from ${began} on`
      throw new GcsError('objects.get', message, { kind: 'answer', status, reason: 'rangeIgnored' })
    }
    this.#generation = headers['x-goog-generation']
    if (this.#generation === undefined) {
      // A page of a proxy, say: the store names the generation of everything that it sends.
      const message = 'objects.get got an answer that is no object'
      throw new GcsError('objects.get', message, { kind: 'network', code: undefined, sent: true })
    }
    this.#job.progress.begin(this.#received)
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
    this.mostBytes = Math.max(this.mostBytes, this.#received)
    this.#job.progress.moved(chunk.length)
  }

  async #checkSum(hashes: string | undefined): Promise<void> {
    const declared = /(?:^|[,\s])crc32c=([^,\s]+)/.exec(hashes ?? '')?.[1]
    const actual = base64Of(this.#sum)
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
    const { key, signal, onWait } = this.#job
    const url = objectUrl(this.#bucket, objectName(this.#bucket, key), { fields: 'name' })
    const request = { op: 'objects.get', method: 'GET', url, signal, onWait } as const
    await this.#bucket.client.send(request, (answer) => answer.text())
    return 0
  }
}

/** The size of the whole object, as far as the answer tells: emulators and gateways leave out what the vendor adds. */
function storedBytesOf({ headers, status }: ApiAnswer): number | undefined {
  const declared = headers['content-encoding'] === undefined && status === 200 ? headers['content-length'] : undefined
  const total = /\/(\d+)$/.exec(headers['content-range'] ?? '')?.[1]
  const text = headers['x-goog-stored-content-length'] ?? total ?? declared
  return text === undefined ? undefined : Number(text)
}
