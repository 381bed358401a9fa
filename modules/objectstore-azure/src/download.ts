import { createHash, type Hash } from 'node:crypto'
import { type FileHandle, open } from 'node:fs/promises'
import type { Readable } from 'node:stream'
import type { BlobDownloadResponseParsed, BlobClient } from '@azure/storage-blob'
import {
  type Attempt,
  type ByteRange,
  decoderOf,
  encodingOf,
  monotonicProgress,
  NexusError,
  ObjectNotFoundError,
  type OpOptions,
  quoteKey,
  replaceFile,
  type TransferProgress,
  type Waiter,
} from '@nexus/objectstore'
import { blobName, type Container, repeat } from './container.ts'
import { AzureError, hasCode, unexpectedAnswer } from './errors.ts'

const OP = 'Get Blob'
/** Permission bits of downloaded files, before the umask: sessions hold prompts and secrets. */
const LOCAL_MODE = 0o600
/** How often content with a wrong digest is fetched again: once may be the wire, always is the store. */
const DIGEST_ATTEMPTS = 3

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
  container: Container,
  key: string,
  localPath: string,
  { signal = new AbortController().signal, onProgress, onWait, ...range }: OpOptions & ByteRange,
): Promise<void> {
  signal.throwIfAborted()
  const progress = monotonicProgress(onProgress)
  const job = { key, range, signal, onWait, progress }
  const bytes = await replaceFile(localPath, key, (tempPath) => downloadTo(container, job, tempPath))
  progress.finished(bytes)
}

/**
 * Downloads to a new file. A transfer that breaks goes on where it broke, of the same version. The whole content is checked
 * against the MD5 that the store keeps with it.
 *
 * @returns the size the file must have
 * @throws ObjectNotFoundError; NexusError `CORRUPT` when the content keeps failing its digest
 */
export async function downloadTo(container: Container, job: DownloadJob, tempPath: string): Promise<number> {
  const file = await open(tempPath, 'wx', LOCAL_MODE)
  try {
    const download = new Download(container, job, file, tempPath)
    return await repeat(
      container,
      job,
      () => download.advance(),
      () => download.mostBytes,
    )
  } catch (error) {
    if (hasCode(error, 'BlobNotFound')) throw new ObjectNotFoundError(job.key, { cause: error })
    throw error
  } finally {
    await file.close()
  }
}

class Download {
  readonly #container: Container
  readonly #job: DownloadJob
  readonly #file: FileHandle
  readonly #path: string
  #etag: string | undefined
  #received = 0
  #digest: Hash = createHash('md5')
  #digestFailures = 0
  /** The most bytes that were ever there. */
  mostBytes = 0

  constructor(container: Container, job: DownloadJob, file: FileHandle, path: string) {
    this.#container = container
    this.#job = job
    this.#file = file
    this.#path = path
  }

  /** Goes on until everything is there. */
  async advance(): Promise<number> {
    const { key, range, listedBytes, signal, onWait } = this.#job
    // A range that broke off behind its last byte.
    if (range.length !== undefined && this.#received > 0 && this.#received >= range.length) return this.#received
    const context = { op: OP, signal, onWait, answerBytes: listedBytes ?? range.length }
    try {
      return await this.#container.client.send(context, (blobs, attempt) =>
        this.#fetch(blobs.getBlobClient(blobName(this.#container, key)), attempt),
      )
    } catch (error) {
      if (hasCode(error, 'InvalidRange')) return await this.#atEnd()
      // The version that was begun has been replaced.
      if (this.#etag === undefined || !hasCode(error, 'ConditionNotMet', 'BlobNotFound')) throw error
      await this.#restart()
      throw new AzureError(OP, error.message, { kind: 'network', code: undefined, sent: false })
    }
  }

  async #fetch(blob: BlobClient, attempt: Attempt): Promise<number> {
    const { key, range } = this.#job
    const { offset = 0, length } = range
    const { signal: abortSignal } = attempt
    if (length === 0) {
      const { etag } = await blob.getProperties({ abortSignal })
      if (etag === undefined) throw unexpectedAnswer(OP, 'an answer without an ETag')
      return 0
    }
    const first = offset + this.#received
    const answer = await blob.download(first, length === undefined ? undefined : length - this.#received, {
      abortSignal,
      // Going on where it broke is ours: with pauses, and in a slot.
      maxRetryRequests: 0,
      ...(this.#etag === undefined ? {} : { conditions: { ifMatch: this.#etag } }),
    })
    attempt.moved()
    const body = answer.readableStreamBody as Readable
    try {
      const stored = storedRange(answer, first)
      const expected = Math.max(0, Math.min(length ?? Infinity, stored.sizeBytes - offset))
      this.#etag = answer.etag
      const encoding = await addedEncoding(answer, blob, abortSignal)
      this.#job.progress.begin(this.#received)
      const source = encoding === undefined ? body : decoderOf(encoding, body, key)
      for await (const chunk of source as AsyncIterable<Buffer>) {
        attempt.moved()
        await this.#append(chunk)
        // Time the disk takes is not silence of the store.
        attempt.moved()
      }
      // What was encoded on the way declares another length: only the store's own word counts.
      const whole = encoding === undefined ? expected : await storedBytes(blob, abortSignal)
      if (this.#received < whole) {
        const message = `${OP} was cut: ${this.#received} bytes arrived of ${whole}`
        throw new AzureError(OP, message, { kind: 'network', code: undefined, sent: true })
      }
      if (offset === 0 && (length === undefined || length >= stored.sizeBytes)) await this.#checkDigest(stored.digest)
      return whole
    } finally {
      body.destroy()
    }
  }

  /** The store has nothing from here on. */
  async #atEnd(): Promise<number> {
    // The object is there, and ends before the range does, or is empty.
    if (this.#received === 0) return 0
    // It broke off behind its last byte, and nothing has looked at its digest.
    await this.#restart()
    throw new AzureError(OP, `${OP} broke off`, { kind: 'network', code: undefined, sent: true })
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
    this.#digest.update(chunk)
    this.#received += chunk.length
    this.mostBytes = Math.max(this.mostBytes, this.#received)
    this.#job.progress.moved(chunk.length)
  }

  async #checkDigest(declared: Uint8Array | undefined): Promise<void> {
    const actual = this.#digest.digest()
    if (declared === undefined || actual.equals(declared)) return
    await this.#restart()
    const message = `content of ${quoteKey(this.#job.key)} has another MD5 than the store keeps with it`
    this.#digestFailures++
    if (this.#digestFailures < DIGEST_ATTEMPTS) {
      throw new AzureError(OP, message, { kind: 'network', code: undefined, sent: true })
    }
    throw new NexusError('CORRUPT', message, { op: 'objectstore.get', key: this.#job.key })
  }

  async #restart(): Promise<void> {
    await this.#file.truncate(0)
    this.#digest = createHash('md5')
    this.#received = 0
    this.#etag = undefined
  }
}

/** What an answer says of the whole blob, once it is the range that was asked for. */
function storedRange(
  { contentRange, contentLength = 0, contentMD5, blobContentMD5 }: BlobDownloadResponseParsed,
  first: number,
): { sizeBytes: number; digest: Uint8Array | undefined } {
  if (contentRange === undefined && first === 0) return { sizeBytes: contentLength, digest: contentMD5 }
  const [, from, total] = /^bytes (\d+)-\d+\/(\d+)$/.exec(contentRange ?? '') ?? []
  if (Number(from) === first) return { sizeBytes: Number(total), digest: blobContentMD5 }
  const said = contentRange === undefined ? 'the whole' : JSON.stringify(contentRange)
  const message = `the store, or a cache before it, was asked for bytes from ${first} on and answered with ${said}`
  throw new NexusError('UNSUPPORTED', message, { op: 'objectstore.get' })
}

/** An encoding that the blob was not stored with: a proxy's. */
async function addedEncoding(
  answer: BlobDownloadResponseParsed,
  blob: BlobClient,
  abortSignal: AbortSignal,
): Promise<string | undefined> {
  const encoding = encodingOf(answer.contentEncoding)
  if (encoding === undefined) return undefined
  const stored = await blob.getProperties({ abortSignal })
  return encodingOf(stored.contentEncoding) === encoding ? undefined : encoding
}

async function storedBytes(blob: BlobClient, abortSignal: AbortSignal): Promise<number> {
  const { contentLength } = await blob.getProperties({ abortSignal })
  if (contentLength === undefined) throw unexpectedAnswer('Get Blob Properties', 'an answer without a length')
  return contentLength
}
