import { closeSync, createReadStream, ftruncateSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** Bytes on disk, in one file. */
export interface Extent {
  path: string
  sizeBytes: number
}

/** Bodies as files of a temporary directory, so that a large one takes no memory; runs of zeros take no disk either. */
export class BodyStore {
  readonly #directory = mkdtempSync(join(tmpdir(), 'nexus-s3-emulator-'))
  #files = 0

  /** Writes a body, showing each chunk on the way. */
  async write(body: AsyncIterable<Buffer>, onChunk: (chunk: Buffer) => void): Promise<Extent> {
    const path = join(this.#directory, String(this.#files++))
    const fd = openSync(path, 'wx')
    let sizeBytes = 0
    try {
      for await (const chunk of body) {
        onChunk(chunk)
        if (!isZeros(chunk)) {
          for (let at = 0; at < chunk.length;) at += writeSync(fd, chunk, at, chunk.length - at, sizeBytes + at)
        }
        sizeBytes += chunk.length
      }
      ftruncateSync(fd, sizeBytes)
    } finally {
      closeSync(fd)
    }
    return { path, sizeBytes }
  }

  /** A range of bytes that lie in several files one after the other. */
  async *read(extents: readonly Extent[], offset: number, length: number): AsyncGenerator<Buffer> {
    let skip = offset
    let left = length
    for (const { path, sizeBytes } of extents) {
      const take = Math.min(sizeBytes - skip, left)
      if (take > 0) {
        yield* createReadStream(path, { start: skip, end: skip + take - 1 }) as AsyncIterable<Buffer>
        left -= take
      }
      skip = Math.max(0, skip - sizeBytes)
      if (left <= 0) return
    }
  }

  remove(): void {
    rmSync(this.#directory, { recursive: true, force: true })
  }
}

const ZEROS = Buffer.alloc(64 * 1024)

function isZeros(chunk: Buffer): boolean {
  return chunk.length <= ZEROS.length && chunk.equals(ZEROS.subarray(0, chunk.length))
}
