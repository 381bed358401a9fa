import { constants } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { Readable } from 'node:stream'

// A FIFO must not make us wait for its other end, nor a terminal become ours.
const SOURCE_FLAGS = constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY
const CHUNK_BYTES = 256 * 1024

/** A file's first bytes, as many as it had when it was opened: it may grow meanwhile. */
export interface Snapshot {
  readonly size: number
  /** Fills the buffer from an offset. */
  fill(buffer: Uint8Array, offset: number): Promise<void>
  /**
   * A fresh stream of a part, by default of everything. It may be destroyed at any time, and be read after another was: each
   * attempt of an upload takes its own.
   */
  stream(offset?: number, length?: number): Readable
  /** Ends the streams that are still open, quietly, and closes the file after the reads under way. May be called again. */
  close(): Promise<void>
}

/**
 * Opens a regular file to upload.
 *
 * @throws the system's error, with the path: of the file, never of the store
 */
export async function openSnapshot(localPath: string): Promise<Snapshot> {
  const handle = await open(localPath, SOURCE_FLAGS)
  try {
    const stat = await handle.stat()
    if (!stat.isFile()) {
      throw systemError(stat.isDirectory() ? 'EISDIR' : 'EINVAL', `${localPath} is not a regular file`, localPath)
    }
    return snapshotOf(handle, stat.size, localPath)
  } catch (error) {
    await handle.close()
    throw error
  }
}

function snapshotOf(handle: FileHandle, size: number, path: string): Snapshot {
  const reads = new Set<Promise<unknown>>()
  const streams = new Set<Readable>()
  let closing: Promise<void> | undefined

  const fill = async (buffer: Uint8Array, offset: number): Promise<void> => {
    for (let done = 0; done < buffer.length;) {
      const bytesRead = await readAt(buffer, done, offset + done)
      if (bytesRead === 0) {
        throw systemError('EIO', `${path} shrank to ${offset + done} bytes while it was read`, path)
      }
      done += bytesRead
    }
  }

  const readAt = async (buffer: Uint8Array, from: number, position: number): Promise<number> => {
    if (closing !== undefined) throw systemError('EBADF', `${path} was closed while it was read`, path)
    const read = handle.read(buffer, from, buffer.length - from, position)
    reads.add(read)
    try {
      return (await read).bytesRead
    } catch (error) {
      // A failed read does not say of what, and must not be taken for a failure of the store.
      throw error instanceof Error ? Object.assign(error, { path }) : error
    } finally {
      reads.delete(read)
    }
  }

  async function* chunks(offset: number, end: number): AsyncGenerator<Buffer> {
    for (let at = offset; at < end;) {
      const chunk = Buffer.allocUnsafe(Math.min(CHUNK_BYTES, end - at))
      await fill(chunk, at)
      yield chunk
      at += chunk.length
    }
  }

  return {
    size,
    fill,
    // One chunk ahead: what waits in a stream is memory per request.
    stream(offset = 0, length = size - offset) {
      const end = Math.min(offset + length, size)
      const stream = Readable.from(chunks(offset, end), { objectMode: false, highWaterMark: CHUNK_BYTES })
      streams.add(stream)
      stream.once('close', () => streams.delete(stream))
      return stream
    },
    close: () => {
      // A request that was given up on may still want to read, and no listener of its errors is left.
      for (const stream of streams) stream.destroy()
      // Closing a descriptor under a read hands its number to another file in the middle of it.
      closing ??= Promise.allSettled(reads).then(() => handle.close())
      return closing
    },
  }
}

function systemError(code: string, message: string, path: string): NodeJS.ErrnoException {
  return Object.assign(new Error(`${code}: ${message}`), { code, path })
}
