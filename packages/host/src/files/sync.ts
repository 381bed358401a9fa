import nodeFs from 'node:fs'
import { open } from 'node:fs/promises'

// Below it a synchronous write into the page cache is cheaper than a round trip through the thread pool; above, it stalls.
const INLINE_BYTES = 256 * 1024

/**
 * Writes all of `bytes` at the descriptor's position: in one call wherever the kernel takes it in one.
 *
 * @param progress counts what was written, also when it fails half way
 */
export async function writeFully(
  fd: number,
  bytes: Uint8Array,
  progress: { writtenBytes: number } = { writtenBytes: 0 },
  fs: Pick<typeof nodeFs, 'writeSync' | 'write'> = nodeFs,
): Promise<void> {
  for (let offset = 0; offset < bytes.byteLength; offset = progress.writtenBytes) {
    const left = bytes.byteLength - offset
    progress.writtenBytes +=
      left <= INLINE_BYTES ? fs.writeSync(fd, bytes, offset, left) : await writeOnce(fd, bytes, offset, left, fs)
  }
}

function writeOnce(
  fd: number,
  bytes: Uint8Array,
  offset: number,
  length: number,
  fs: Pick<typeof nodeFs, 'write'>,
): Promise<number> {
  return new Promise((resolve, reject) => {
    fs.write(fd, bytes, offset, length, null, (error, written) => (error ? reject(error) : resolve(written)))
  })
}

/** fdatasync: content and size are on disk when it resolves. */
export function syncData(fd: number, fs: Pick<typeof nodeFs, 'fdatasync'> = nodeFs): Promise<void> {
  return new Promise((resolve, reject) => {
    fs.fdatasync(fd, (error) => (error ? reject(error) : resolve()))
  })
}

/** Makes a file that exists durable: content and metadata are on disk when it resolves. */
export async function syncFile(path: string): Promise<void> {
  const handle = await open(path, 'r+')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

/** Makes the names in a directory durable: what was created, renamed or removed there survives power loss. */
export async function syncDirectory(
  dir: string,
  fs: Pick<typeof nodeFs, 'openSync' | 'fsync' | 'closeSync'> = nodeFs,
): Promise<void> {
  const fd = fs.openSync(dir, 'r')
  try {
    await new Promise<void>((resolve, reject) => {
      fs.fsync(fd, (error) => (error ? reject(error) : resolve()))
    })
  } finally {
    fs.closeSync(fd)
  }
}
