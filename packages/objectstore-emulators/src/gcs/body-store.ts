import { createHash, type Hash } from 'node:crypto'
import { closeSync, createReadStream, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Crc32c } from './crc32c.ts'

/** What is known of stored bytes. */
export interface StoredBody {
  sizeBytes: number
  /** Base64, big-endian. */
  crc32c: string
  /** Base64; absent where bodies are discarded. */
  md5?: string
  /** Absent where bodies are discarded. */
  path?: string
}

const ZEROS = Buffer.alloc(64 * 1024)

/**
 * Bodies in temporary files, so that an emulator serves gigabytes in little memory.
 *
 * - `keep` stores them
 * - `discard` keeps sizes and checksums only; reading gives zeros, which is right for sparse files
 */
export class BodyStore {
  readonly #discard: boolean
  readonly #directory: string
  #count = 0

  constructor(bodies: 'keep' | 'discard') {
    this.#discard = bodies === 'discard'
    this.#directory = mkdtempSync(join(tmpdir(), 'nexus-gcs-emulator-'))
  }

  /** A body to be written. */
  create(): BodyWriter {
    return new BodyWriter(this.#discard ? undefined : join(this.#directory, String(this.#count++)))
  }

  /** Bytes of a body from `offset`, at most `bytes`. */
  async *read(body: StoredBody, offset: number, bytes: number): AsyncGenerator<Buffer> {
    if (bytes === 0) return
    if (body.path !== undefined) {
      // Opened at once: the object may be replaced before the stream would get to it.
      const fd = openSync(body.path, 'r')
      yield* createReadStream('', { fd, start: offset, end: offset + bytes - 1 }) as AsyncIterable<Buffer>
      return
    }
    for (let left = bytes; left > 0; left -= ZEROS.length) yield ZEROS.subarray(0, Math.min(left, ZEROS.length))
  }

  remove(body: StoredBody): void {
    if (body.path !== undefined) rmSync(body.path, { force: true })
  }

  close(): void {
    rmSync(this.#directory, { recursive: true, force: true })
  }
}

/** One body on its way in. Its checksums are those of what is kept: a part that is cut off again does not count. */
export class BodyWriter {
  readonly #path: string | undefined
  readonly #fd: number | undefined
  #sizeBytes = 0
  #crc32c = new Crc32c()
  #md5: Hash | undefined
  /** Bytes behind the last multiple of the quantum: an interrupted chunk loses them. */
  #loose: Buffer[] = []
  #looseBytes = 0

  constructor(path: string | undefined) {
    this.#path = path
    this.#fd = path === undefined ? undefined : openSync(path, 'wx')
    this.#md5 = path === undefined ? undefined : createHash('md5')
  }

  /** Bytes written and settled. */
  get settledBytes(): number {
    return this.#sizeBytes
  }

  /** Takes bytes; they count once {@link settle} was called, or a whole quantum of them is there. */
  write(bytes: Buffer, quantumBytes: number): void {
    this.#loose.push(bytes)
    this.#looseBytes += bytes.length
    if (this.#looseBytes < quantumBytes) return
    const all = Buffer.concat(this.#loose)
    const whole = all.length - (all.length % quantumBytes)
    this.#append(all.subarray(0, whole))
    this.#loose = [Buffer.from(all.subarray(whole))]
    this.#looseBytes = all.length - whole
  }

  /** Counts everything that was taken. */
  settle(): void {
    for (const bytes of this.#loose) this.#append(bytes)
    this.forget()
  }

  /** Forgets what was not settled. */
  forget(): void {
    this.#loose = []
    this.#looseBytes = 0
  }

  /** Closes the file. What was not settled is lost. */
  finish(): StoredBody {
    if (this.#fd !== undefined) closeSync(this.#fd)
    const crc32c = this.#crc32c.base64()
    if (this.#path === undefined || this.#md5 === undefined) return { sizeBytes: this.#sizeBytes, crc32c }
    return { sizeBytes: this.#sizeBytes, crc32c, md5: this.#md5.digest('base64'), path: this.#path }
  }

  /** Throws the body away. */
  discard(): void {
    if (this.#fd !== undefined) closeSync(this.#fd)
    if (this.#path !== undefined) rmSync(this.#path, { force: true })
  }

  #append(bytes: Buffer): void {
    if (this.#fd !== undefined) for (let at = 0; at < bytes.length;) at += writeSync(this.#fd, bytes, at)
    this.#crc32c.update(bytes)
    this.#md5?.update(bytes)
    this.#sizeBytes += bytes.length
  }
}
