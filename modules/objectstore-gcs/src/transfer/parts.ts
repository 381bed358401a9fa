import type { Readable } from 'node:stream'
import { NexusError } from '@nexus/objectstore'
import { type Bucket, objectUrl, repeat, uploadUrl } from '../bucket.ts'
import type { ApiAnswer, ApiRequest } from '../client/client.ts'
import { GcsError, hasStatus } from '../errors.ts'
import { partStream } from './part-stream.ts'
import { checkStored, CONTENT_TYPE, describedObject, metadataOf, type Upload } from './upload-job.ts'

/** How long the store is given to forget an upload that was given up. */
const CANCEL_MS = 2_000
const STATUS_RESUME_INCOMPLETE = 308

/**
 * Uploads a file in chunks of a session, each sent from disk. After a failure the store is asked how much it has, and the
 * upload goes on there; a session that the store has forgotten begins anew.
 *
 * @see https://cloud.google.com/storage/docs/performing-resumable-uploads
 */
export async function uploadInChunks(bucket: Bucket, upload: Upload): Promise<void> {
  const session = new Session(bucket, upload)
  try {
    await repeat(
      bucket,
      upload,
      () => session.advance(),
      () => session.settledBytes,
    )
  } catch (error) {
    session.cancel()
    await session.removeHalf()
    throw error
  }
}

class Session {
  readonly #bucket: Bucket
  readonly #upload: Upload
  #url: string | undefined
  #unsure = false
  #done = false
  #halfGeneration: string | undefined
  /** Bytes that the store has said to have. */
  settledBytes = 0

  constructor(bucket: Bucket, upload: Upload) {
    this.#bucket = bucket
    this.#upload = upload
  }

  /** Goes on until the object is there. */
  async advance(): Promise<void> {
    try {
      if (this.#url === undefined) await this.#start()
      else if (this.#unsure) await this.#ask()
      this.#unsure = true
      while (!this.#done) await this.#sendChunk()
    } catch (error) {
      if (!hasStatus(error, 404, 410) || this.#url === undefined) throw error
      // Forgotten after a week, or by a store that lost it. The bucket's own absence shows when the next one is started.
      this.#url = undefined
      this.settledBytes = 0
      throw new GcsError(error.op, error.message, { kind: 'network', code: undefined, sent: false })
    }
  }

  /** Tells the store to forget what it has. Not waited for: the caller has given up, and a session ends by itself in a week. */
  cancel(): void {
    if (this.#url === undefined || this.#done) return
    const signal = AbortSignal.timeout(CANCEL_MS)
    const request = { op: 'uploads.cancel', method: 'DELETE', url: this.#url, expected: [499], signal } as const
    const { client, background } = this.#bucket
    const order = client.send(request, async (answer) => void (await answer.text())).catch(() => undefined)
    const done = order.finally(() => background.delete(done))
    background.add(done)
  }

  async #start(): Promise<void> {
    const { name, signal, onWait, file } = this.#upload
    const { kmsKeyName } = this.#bucket.options
    const request: ApiRequest = {
      op: 'uploads.start',
      method: 'POST',
      url: uploadUrl(this.#bucket, { uploadType: 'resumable', name, kmsKeyName }),
      headers: {
        'Content-Type': 'application/json; charset=UTF-8',
        'X-Upload-Content-Type': CONTENT_TYPE,
        'X-Upload-Content-Length': String(file.size),
      },
      body: metadataOf(this.#bucket, this.#upload),
      signal,
      onWait,
    }
    const location = await this.#bucket.client.send(request, async (answer) => {
      await answer.text()
      return answer.headers['location']
    })
    const base = this.#bucket.options.uploadUrl
    if (location === undefined || !URL.canParse(location, base)) {
      throw new GcsError(request.op, `${request.op} named no session`, { kind: 'network', code: undefined, sent: true })
    }
    // The token goes where it was meant to go, whatever host the answer names.
    const { pathname, search } = new URL(location, base)
    this.#url = new URL(base).origin + pathname + search
    this.settledBytes = 0
  }

  async #ask(): Promise<void> {
    await this.#put('uploads.status', { 'Content-Range': `bytes */${this.#upload.file.size}` })
  }

  async #askForEnd(): Promise<void> {
    await this.#ask()
    if (this.#done) return
    const message = 'uploads.status says that all is kept, and not that it is stored'
    throw new GcsError('uploads.status', message, { kind: 'network', code: undefined, sent: true })
  }

  async #sendChunk(): Promise<void> {
    const { file, progress } = this.#upload
    const first = this.settledBytes
    const length = Math.min(this.#bucket.options.chunkBytes, file.size - first)
    // Everything is there and only the answer is missing: it is asked for.
    if (length === 0 && file.size > 0) return this.#askForEnd()
    const open = (onBytes: (bytes: number) => void): Readable => {
      progress.begin(first)
      return partStream(file, { offset: first, length }, onBytes)
    }
    const range = `bytes ${first}-${first + length - 1}/${file.size}`
    await this.#put(
      'uploads.chunk',
      { 'Content-Range': range, 'Content-Type': CONTENT_TYPE },
      {
        body: { sizeBytes: length, open },
        onSent: (bytes) => progress.moved(bytes),
      },
      first + length < file.size,
    )
    if (this.#done || this.settledBytes > first) return
    const message = 'uploads.chunk was answered without anything kept'
    throw new GcsError('uploads.chunk', message, { kind: 'network', code: undefined, sent: true })
  }

  async #put(
    op: string,
    headers: Record<string, string>,
    rest: Partial<ApiRequest> = {},
    moreFollows = false,
  ): Promise<void> {
    const { signal, onWait } = this.#upload
    const expected = [STATUS_RESUME_INCOMPLETE]
    const request: ApiRequest = { op, method: 'PUT', url: this.#url ?? '', headers, expected, signal, onWait, ...rest }
    await this.#bucket.client.send(request, (answer) => this.#take(answer, op, moreFollows))
  }

  async #take(answer: ApiAnswer, op: string, moreFollows: boolean): Promise<void> {
    if (answer.status !== STATUS_RESUME_INCOMPLETE) {
      if (moreFollows) await this.#refuseEarlyEnd(answer, op)
      await checkStored(answer, this.#upload, op)
      this.#done = true
      return
    }
    await answer.text()
    const last = /^bytes=0-(\d+)$/.exec(answer.headers['range'] ?? '')?.[1]
    this.settledBytes = last === undefined ? 0 : Math.min(Number(last) + 1, this.#upload.file.size)
  }

  /** After the store took a chunk for the whole: half an object must not stay under the name. */
  async removeHalf(): Promise<void> {
    if (this.#halfGeneration === undefined) return
    const url = objectUrl(this.#bucket, this.#upload.name, { ifGenerationMatch: this.#halfGeneration })
    const request = { op: 'objects.delete', method: 'DELETE', url, signal: AbortSignal.timeout(CANCEL_MS) } as const
    await this.#bucket.client.send(request, (gone) => gone.text()).catch(() => undefined)
  }

  async #refuseEarlyEnd(answer: ApiAnswer, op: string): Promise<never> {
    const { generation } = await describedObject(answer, op)
    this.#halfGeneration = String(generation)
    const message =
      'the store took the first chunk of an upload for the whole object, so it knows no uploads in chunks: ' +
      'set core.object_store.options.resumable_threshold above the size of the largest file'
    throw new NexusError('UNSUPPORTED', message, { op: 'objectstore.put' })
  }
}
