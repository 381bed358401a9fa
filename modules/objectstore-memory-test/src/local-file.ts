import { closeSync, fstatSync, openSync, read, readSync, writeFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { setImmediate } from 'node:timers/promises'

const CHUNK_BYTES = 1024 * 1024
const SLICE_MS = 4

let sliceStart = performance.now()

/**
 * Lets the event loop turn once four milliseconds of work were done since it last could. Small files are read and written
 * synchronously, which is many times faster than a promise each, and this keeps the loop from starving.
 */
export async function breathe(): Promise<void> {
  if (performance.now() - sliceStart < SLICE_MS) return
  await setImmediate()
  sliceStart = performance.now()
}

/** How a read or a write reports and is stopped. */
export interface ReadOptions {
  signal?: AbortSignal | undefined
  /** Called with the bytes of each chunk. */
  onBytes?: (bytes: number) => void
}

/** The first `size` bytes of a file, `size` taken at open: what is appended while it is read is left out. */
export async function readFirstBytes(path: string, { signal, onBytes }: ReadOptions = {}): Promise<Buffer> {
  await breathe()
  signal?.throwIfAborted()
  const fd = openSync(path, 'r')
  try {
    const stat = fstatSync(fd)
    if (!stat.isFile()) throw Object.assign(new Error(`${path} is not a file`), { code: 'EISDIR', path })
    const bytes = Buffer.allocUnsafeSlow(stat.size)
    let at = 0
    while (at < bytes.length) {
      signal?.throwIfAborted()
      const chunk = Math.min(CHUNK_BYTES, bytes.length - at)
      const count =
        bytes.length <= CHUNK_BYTES ? readSync(fd, bytes, at, chunk, at) : await readAsync(fd, bytes, at, chunk)
      if (count === 0) throw shrunk(path, at, bytes.length)
      at += count
      onBytes?.(count)
    }
    return bytes
  } finally {
    closeSync(fd)
  }
}

function readAsync(fd: number, bytes: Buffer, at: number, length: number): Promise<number> {
  return new Promise((resolve, reject) => {
    read(fd, bytes, at, length, at, (error, count) => (error === null ? resolve(count) : reject(error)))
  })
}

/** Creates a file with the bytes. */
export async function writeBytes(path: string, bytes: Buffer, { signal, onBytes }: ReadOptions = {}): Promise<void> {
  await breathe()
  for (let at = 0; at === 0 || at < bytes.length; at += CHUNK_BYTES) {
    signal?.throwIfAborted()
    const chunk = bytes.subarray(at, at + CHUNK_BYTES)
    if (bytes.length <= CHUNK_BYTES) writeFileSync(path, chunk)
    else await writeFile(path, chunk, { flag: at === 0 ? 'w' : 'a' })
    onBytes?.(chunk.length)
  }
}

function shrunk(path: string, at: number, size: number): Error {
  return Object.assign(new Error(`${path} shrank to ${at} bytes from ${size} while it was read`), { code: 'EIO', path })
}
