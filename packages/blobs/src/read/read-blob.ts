import { createHash, type Hash } from 'node:crypto'
import { READ_FLAGS, readSome, type BlobFileSystem } from '../file-system.ts'
import { parseMeta } from '../layout.ts'
import { withShard } from '../store-directory.ts'

/** Bytes that are read on the spot; more goes through the thread pool. */
const INLINE_BYTES = 256 * 1024
const CHUNK_BYTES = 1024 * 1024
/** Longer than any `.meta` we write. */
const META_MAX_BYTES = 8192

/** An open file, never anything but a regular one. */
interface OpenFile {
  fd: number
  sizeBytes: number
  mtimeMs: number
}

/** A blob's open `.bin`, and what its `.meta` said when it was opened. */
export interface OpenBlob extends OpenFile {
  meta: BlobMeta | undefined
}

/** Opens a blob below `dir`, or undefined when there is none; a link, FIFO or directory in its place counts as none. */
export function openBlob(fs: BlobFileSystem, dir: string, sha256: string): OpenBlob | undefined {
  return withShard(fs, dir, sha256, ({ bin, meta }) => {
    const open = openRegular(fs, bin)
    if (open === undefined) return undefined
    try {
      return { ...open, meta: readMeta(fs, meta) }
    } catch (error) {
      fs.closeSync(open.fd)
      throw error
    }
  })
}

function openRegular(fs: BlobFileSystem, path: string): OpenFile | undefined {
  let fd: number
  try {
    fd = fs.openSync(path, READ_FLAGS)
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code
    if (code === 'ENOENT' || code === 'ENOTDIR' || code === 'ELOOP' || code === 'ENXIO') return undefined
    throw error
  }
  try {
    const stat = fs.fstatSync(fd)
    if (stat.isFile()) return { fd, sizeBytes: stat.size, mtimeMs: stat.mtimeMs }
  } catch (error) {
    fs.closeSync(fd)
    throw error
  }
  fs.closeSync(fd)
  return undefined
}

/**
 * The whole file from the descriptor's position on, each piece given to `hash` as it comes; shorter than `sizeBytes` when
 * it was cut meanwhile.
 */
export async function readAll(fs: BlobFileSystem, fd: number, sizeBytes: number, hash?: Hash): Promise<Buffer> {
  const data = Buffer.allocUnsafeSlow(sizeBytes)
  let done = 0
  while (done < sizeBytes) {
    const part = data.subarray(done, Math.min(sizeBytes, done + CHUNK_BYTES))
    const bytes = sizeBytes <= INLINE_BYTES ? fs.readSync(fd, part, 0, part.length, null) : await readSome(fs, fd, part)
    if (bytes === 0) break
    hash?.update(part.subarray(0, bytes))
    done += bytes
  }
  return done === sizeBytes ? data : data.subarray(0, done)
}

/** Digest and length of everything from the descriptor's position on, in flat memory. */
export async function hashAll(fs: BlobFileSystem, fd: number): Promise<{ sha256: string; sizeBytes: number }> {
  const hash = createHash('sha256')
  const buffer = Buffer.allocUnsafeSlow(CHUNK_BYTES)
  let sizeBytes = 0
  for (;;) {
    const bytes = await readSome(fs, fd, buffer)
    if (bytes === 0) return { sha256: hash.digest('hex'), sizeBytes }
    hash.update(buffer.subarray(0, bytes))
    sizeBytes += bytes
  }
}

/** What a whole `.meta` says. */
export interface BlobMeta {
  mediaType: string
  sizeBytes: number
}

/** What the `.meta` says, or undefined when it is missing, torn or no regular file. */
export function readMeta(fs: BlobFileSystem, path: string): BlobMeta | undefined {
  const open = openRegular(fs, path)
  if (open === undefined) return undefined
  try {
    if (open.sizeBytes > META_MAX_BYTES) return undefined
    const buffer = Buffer.alloc(open.sizeBytes)
    let done = 0
    while (done < buffer.length) {
      const bytes = fs.readSync(open.fd, buffer, done, buffer.length - done, null)
      if (bytes === 0) break
      done += bytes
    }
    return parseMeta(buffer.toString('utf8', 0, done))
  } finally {
    fs.closeSync(open.fd)
  }
}
