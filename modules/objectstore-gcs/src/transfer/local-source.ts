import { constants } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { Crc32c } from './crc32c.ts'

// A FIFO must not make us wait for its other end.
const SOURCE_FLAGS = constants.O_RDONLY | constants.O_NONBLOCK
/** Bytes read at a time. */
const READ_BYTES = 256 * 1024

/** The file to upload, open. What is appended to it later is left out. */
export class LocalSource {
  readonly path: string
  readonly sizeBytes: number
  readonly #handle: FileHandle

  private constructor(path: string, sizeBytes: number, handle: FileHandle) {
    this.path = path
    this.sizeBytes = sizeBytes
    this.#handle = handle
  }

  /** Opens a regular file. @throws a system error that names the path */
  static async open(path: string): Promise<LocalSource> {
    const handle = await open(path, SOURCE_FLAGS)
    try {
      const stat = await handle.stat()
      if (stat.isFile()) return new LocalSource(path, stat.size, handle)
      throw systemError(stat.isDirectory() ? 'EISDIR' : 'EINVAL', `${path} is not a regular file`, path)
    } catch (error) {
      await handle.close()
      throw error
    }
  }

  async close(): Promise<void> {
    await this.#handle.close()
  }

  /** Base64 of the CRC32C of the whole content. Reads the file once. */
  async crc32c(signal: AbortSignal): Promise<string> {
    const sum = new Crc32c()
    for await (const chunk of this.#read(0, this.sizeBytes)) {
      signal.throwIfAborted()
      sum.update(chunk)
    }
    return sum.base64()
  }

  /** A part of the content as a stream, with text before and after it. */
  stream(offset: number, length: number, onBytes: (bytes: number) => void, head = '', tail = ''): Readable {
    const read = (): AsyncGenerator<Buffer> => this.#read(offset, length)
    async function* parts(): AsyncGenerator<Buffer> {
      if (head !== '') yield Buffer.from(head)
      for await (const chunk of read()) {
        yield chunk
        onBytes(chunk.length)
      }
      if (tail !== '') yield Buffer.from(tail)
    }
    // One chunk ahead: what waits in the stream is memory per request.
    return Readable.from(parts(), { objectMode: true, highWaterMark: 1 })
  }

  async *#read(offset: number, length: number): AsyncGenerator<Buffer> {
    for (let done = 0; done < length;) {
      const chunk = Buffer.allocUnsafe(Math.min(READ_BYTES, length - done))
      const bytesRead = await this.#fill(chunk, offset + done)
      if (bytesRead === 0) {
        throw systemError('EIO', `${this.path} shrank to ${offset + done} bytes while it was read`, this.path)
      }
      yield chunk.subarray(0, bytesRead)
      done += bytesRead
    }
  }

  async #fill(chunk: Buffer, position: number): Promise<number> {
    try {
      return (await this.#handle.read(chunk, 0, chunk.length, position)).bytesRead
    } catch (error) {
      // A failed read does not say of what, and must not be taken for one of the store's.
      throw error instanceof Error ? Object.assign(error, { path: this.path }) : error
    }
  }
}

function systemError(code: string, message: string, path: string): NodeJS.ErrnoException {
  return Object.assign(new Error(`${code}: ${message}`), { code, path })
}
