import { createHash, type Hash, randomUUID } from 'node:crypto'
import type { Snapshot } from '@nexus/objectstore'
import { type Container, repeat } from '../container.ts'
import { hasCode, unexpectedAnswer } from '../errors.ts'
import { CONTENT_TYPE, openBody, storedAs, type Upload } from './upload-job.ts'

/** What a blob can be made of. */
const MOST_BLOCKS = 50_000
/**
 * All blocks at one name must have ids of one length, those of other programs included, so ours are as long as those that the
 * vendor's own SDKs make.
 */
const ID_CHARACTERS = 48
/** How often blocks are staged that other writers of the name have dropped with their commits. */
const MOST_STAGINGS = 5
const READ_BYTES = 256 * 1024

/**
 * Stages a file block by block and commits their list, which replaces the blob. A failure goes on at the block that broke.
 *
 * Every commit of a name drops the staged blocks of all its writers. One that loses its blocks so stages them again, and is
 * then the last writer. A failed upload leaves its own: nothing removes blocks but a commit, which would take those of a
 * writer that is still at work. The store forgets them after a week.
 *
 * @see https://learn.microsoft.com/rest/api/storageservices/put-block-list
 */
export async function uploadInBlocks(container: Container, upload: Upload): Promise<void> {
  for (let staging = 1; ; staging++) {
    // New ids each time: what others staged or committed at this name never mixes with ours.
    const staged = new StagedFile(container, upload)
    try {
      await repeat(
        container,
        upload,
        () => staged.stageRest(),
        () => staged.count,
      )
      await repeat(container, upload, () => staged.commit())
      return
    } catch (error) {
      if (!(error instanceof LostBlocks)) throw error
      if (staging === MOST_STAGINGS) throw error.cause
    }
  }
}

/** Another writer of the name has committed, and with that dropped our blocks. Not to be repeated as it is. */
class LostBlocks extends Error {}

class StagedFile {
  readonly #container: Container
  readonly #upload: Upload
  readonly #blockBytes: number
  readonly #id: string = randomUUID()
  readonly #ids: string[] = []
  /** Of everything that is staged. */
  #digest: Hash = createHash('md5')

  constructor(container: Container, upload: Upload) {
    this.#container = container
    this.#upload = upload
    this.#blockBytes = Math.max(container.options.blockBytes, Math.ceil(upload.file.size / MOST_BLOCKS))
  }

  /** Blocks that the store has. */
  get count(): number {
    return this.#ids.length
  }

  async stageRest(): Promise<void> {
    const { size } = this.#upload.file
    for (let offset = this.count * this.#blockBytes; offset < size; offset += this.#blockBytes) {
      await this.#stage(offset, Math.min(this.#blockBytes, size - offset))
    }
  }

  async #stage(offset: number, length: number): Promise<void> {
    const { name, file, signal, onWait } = this.#upload
    const { client, options } = this.#container
    const op = 'Put Block'
    const id = Buffer.from(this.#id + String(this.count).padStart(ID_CHARACTERS - this.#id.length, '0')).toString(
      'base64',
    )
    const block = createHash('md5')
    const whole = this.#digest.copy()
    for await (const chunk of readBlock(file, offset, length)) {
      signal.throwIfAborted()
      block.update(chunk)
      whole.update(chunk)
    }
    const { encryptionScope } = options
    const settings = {
      transactionalContentMD5: block.digest(),
      ...(encryptionScope === undefined ? {} : { encryptionScope }),
    }
    const { requestId } = await client.send({ op, signal, onWait, sentBytes: length }, (blobs, attempt) => {
      const body = () => openBody(this.#upload, offset, length, attempt)
      return blobs.getBlockBlobClient(name).stageBlock(id, body, length, { ...settings, abortSignal: attempt.signal })
    })
    if (requestId === undefined) throw unexpectedAnswer(op, 'an answer without a request id')
    this.#ids.push(id)
    this.#digest = whole
  }

  /** May be repeated: after a lost answer the store finds the same blocks committed. */
  async commit(): Promise<void> {
    const { name, signal, onWait } = this.#upload
    const context = { op: 'Put Block List', signal, onWait }
    const blobHTTPHeaders = { blobContentType: CONTENT_TYPE, blobContentMD5: this.#digest.copy().digest() }
    const settings = { ...storedAs(this.#container), blobHTTPHeaders }
    try {
      const { etag } = await this.#container.client.send(context, (blobs, { signal: abortSignal }) =>
        blobs.getBlockBlobClient(name).commitBlockList(this.#ids, { ...settings, abortSignal }),
      )
      if (etag === undefined) throw unexpectedAnswer(context.op, 'an answer without an ETag')
    } catch (error) {
      throw hasCode(error, 'InvalidBlockList') ? new LostBlocks(error.message, { cause: error }) : error
    }
  }
}

async function* readBlock(file: Snapshot, offset: number, length: number): AsyncGenerator<Buffer> {
  const buffer = Buffer.allocUnsafe(Math.min(READ_BYTES, length))
  for (let done = 0; done < length; done += buffer.length) {
    const chunk = buffer.subarray(0, Math.min(buffer.length, length - done))
    await file.fill(chunk, offset + done)
    yield chunk
  }
}
