import { closeSync, constants, fstatSync, openSync, read, readSync } from 'node:fs'
import { Readable } from 'node:stream'
import { promisify } from 'node:util'

const readAt = promisify(read)

/** Read in one synchronous step: cheaper than a turn of the thread pool. */
const SYNC_BYTES = 256 * 1024
/** Read ahead by a stream. */
const CHUNK_BYTES = 256 * 1024

/**
 * A local file to upload, open. Its size is the one it had then: bytes appended later are left out.
 *
 * @throws the system's error, with the path
 */
export class SourceFile {
  readonly path: string
  readonly sizeBytes: number
  readonly #fd: number
  #streaming = 0
  #closed = false

  constructor(path: string) {
    this.path = path
    // Nothing makes us wait: a FIFO would for ever.
    this.#fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY)
    try {
      const stat = fstatSync(this.#fd)
      if (!stat.isFile()) throw this.#error(stat.isDirectory() ? 'EISDIR' : 'EINVAL', 'is not a regular file')
      this.sizeBytes = stat.size
    } catch (error) {
      closeSync(this.#fd)
      throw error
    }
  }

  /** Fills the buffer from an offset. */
  async fill(buffer: Buffer, offset: number): Promise<void> {
    for (let at = 0; at < buffer.length;) {
      const length = buffer.length - at
      const bytes =
        buffer.length <= SYNC_BYTES
          ? readSync(this.#fd, buffer, at, length, offset + at)
          : (await readAt(this.#fd, buffer, at, length, offset + at)).bytesRead
      if (bytes === 0) throw this.#error('EIO', `became shorter than ${this.sizeBytes} bytes while it was read`)
      at += bytes
    }
  }

  /** A fresh stream of a part of the file. */
  stream(offset: number, length: number): Readable {
    let at = 0
    const next = async (): Promise<Buffer | null> => {
      if (at === length) return null
      const chunk = Buffer.allocUnsafe(Math.min(CHUNK_BYTES, length - at))
      this.#streaming++
      try {
        await this.fill(chunk, offset + at)
      } finally {
        this.#streaming--
        if (this.#closed && this.#streaming === 0) closeSync(this.#fd)
      }
      at += chunk.length
      return chunk
    }
    return new Readable({
      highWaterMark: CHUNK_BYTES,
      read() {
        next().then(
          (chunk) => this.push(chunk),
          (error: Error) => this.destroy(error),
        )
      },
    })
  }

  /** Closes the file once no read of a stream is under way: the number would be another file's by the time it is used. */
  close(): void {
    this.#closed = true
    if (this.#streaming === 0) closeSync(this.#fd)
  }

  #error(code: string, problem: string): Error {
    return Object.assign(new Error(`${code}: ${this.path} ${problem}`), { code, path: this.path })
  }
}
