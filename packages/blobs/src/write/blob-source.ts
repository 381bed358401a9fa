import { constants } from 'node:fs'
import { Readable } from 'node:stream'
import { fromSystemError, NexusError } from '@nexus/errors'
import { readSome, type BlobFileSystem } from '../file-system.ts'

/**
 * What can be put: bytes, a stream of bytes, or the path of a local regular file. Bytes must not change until the put
 * settles. A stream is consumed, and destroyed when the put fails.
 */
export type BlobSource = Uint8Array | Readable | AsyncIterable<Uint8Array> | { path: string }

/** Bytes that are hashed and written in one piece, at most. Bounds both memory and time away from the event loop. */
const CHUNK_BYTES = 1024 * 1024

/** The source as chunks of at most 1 MiB, each valid until the next is asked for. */
export function chunksOf(source: BlobSource, fs: BlobFileSystem): AsyncIterable<Uint8Array> {
  if (source instanceof Uint8Array) return slices(source)
  if (typeof source === 'object' && source !== null) {
    if (Symbol.asyncIterator in source) return streamed(source)
    if (typeof source.path === 'string') return fileChunks(source.path, fs)
  }
  throw new NexusError('INVALID_ARGUMENT', 'a blob is put as a Uint8Array, a Readable or {path}', { op: 'blobs.put' })
}

async function* slices(data: Uint8Array): AsyncIterable<Uint8Array> {
  for (let start = 0; start < data.length; start += CHUNK_BYTES) yield data.subarray(start, start + CHUNK_BYTES)
}

async function* streamed(source: AsyncIterable<unknown>): AsyncIterable<Uint8Array> {
  for await (const chunk of source) {
    const bytes = typeof chunk === 'string' ? Buffer.from(chunk) : chunk
    if (!(bytes instanceof Uint8Array)) {
      throw new NexusError('INVALID_ARGUMENT', `a blob stream yields bytes, not ${typeof chunk}`, { op: 'blobs.put' })
    }
    yield* slices(bytes)
  }
}

async function* fileChunks(path: string, fs: BlobFileSystem): AsyncIterable<Uint8Array> {
  let fd: number
  try {
    // Without O_NONBLOCK the open of a FIFO would block until a writer comes.
    fd = fs.openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
  } catch (error) {
    throw fromSystemError(error, 'blobs.put', path)
  }
  try {
    const stat = fs.fstatSync(fd)
    if (!stat.isFile()) {
      throw new NexusError('INVALID_ARGUMENT', `${path} is not a regular file`, { op: 'blobs.put', key: path })
    }
    // A log that grows faster than it is copied must not keep the put alive: what was there at the start is the blob.
    // Files of /proc report no size at all; those are read to their end.
    let left = stat.size === 0 ? Number.MAX_SAFE_INTEGER : stat.size
    const buffer = Buffer.allocUnsafeSlow(Math.min(left, CHUNK_BYTES))
    while (left > 0) {
      const bytes = await readSome(fs, fd, left < buffer.length ? buffer.subarray(0, left) : buffer)
      if (bytes === 0) return
      left -= bytes
      yield buffer.subarray(0, bytes)
    }
  } catch (error) {
    throw (error as NodeJS.ErrnoException).syscall === undefined ? error : fromSystemError(error, 'blobs.put', path)
  } finally {
    fs.closeSync(fd)
  }
}

/**
 * Passes the chunks on until the signal fires, then rejects with its reason without waiting for a source that may never
 * yield again, and tells the source to stop.
 */
export async function* untilAborted(
  chunks: AsyncIterable<Uint8Array>,
  source: BlobSource,
  signal: AbortSignal | undefined,
): AsyncIterable<Uint8Array> {
  if (signal === undefined) {
    yield* chunks
    return
  }
  const iterator = chunks[Symbol.asyncIterator]()
  // One promise per chunk, not a race against one long-lived promise: that would collect a reaction for every chunk.
  let interrupt: ((reason: unknown) => void) | undefined
  const onAbort = (): void => interrupt?.(signal.reason)
  signal.addEventListener('abort', onAbort, { once: true })
  try {
    for (;;) {
      signal.throwIfAborted()
      const next = await new Promise<IteratorResult<Uint8Array>>((resolve, reject) => {
        interrupt = reject
        iterator.next().then(resolve, reject)
      })
      if (next.done === true) return
      yield next.value
    }
  } finally {
    signal.removeEventListener('abort', onAbort)
    if (source instanceof Readable) source.destroy()
    // Not awaited: a source that hangs would never answer.
    iterator.return?.().then(undefined, () => undefined)
  }
}
