import type { BucketContext } from './bucket-context.ts'
import type { Call } from '../call.ts'
import { onLocal, openLocalSource } from './copy-file.ts'
import { READ_FLAGS, unless } from '../disk/file-system.ts'
import { findPlace, modeOf } from './object-place.ts'

/** Larger files are written without a look: reading both whole would be a long silence before the first report. */
const MAX_BYTES = 256 * 1024 * 1024

/**
 * Whether the object already holds exactly what the local file does. A snapshot stores every file of a session again at
 * each turn, most of them unchanged, and reading two files is several times cheaper than writing and syncing one.
 *
 * An object that is found so is durable afterwards, whichever process wrote it. Gives its size in bytes, else undefined.
 */
export async function findUnchanged(
  context: BucketContext,
  segments: readonly string[],
  localPath: string,
  call: Call,
): Promise<number | undefined> {
  const { fs, durable, directories, durableObjects } = context
  const source = openLocalSource(fs, localPath)
  try {
    if (source.sizeBytes > MAX_BYTES) return undefined
    const place = findPlace(context, segments)
    if (place === undefined || modeOf(context, place) !== 'plain') return undefined
    const fd = unless(['ENOENT', 'ELOOP', 'ENXIO', 'EACCES'], () => fs.openSync(place.plain, READ_FLAGS))
    if (fd === undefined) return undefined
    try {
      const stat = fs.fstatSync(fd, { bigint: true })
      if (!stat.isFile() || stat.size !== BigInt(source.sizeBytes)) return undefined
      if (!(await sameBytes(context, source, fd, call))) return undefined
      if (!durable || durableObjects.has(place.plain, stat)) return source.sizeBytes
      fs.fdatasyncSync(fd)
      await directories.sync([place.parent])
      durableObjects.add(place.plain, stat)
    } finally {
      fs.closeSync(fd)
    }
    return source.sizeBytes
  } finally {
    fs.closeSync(source.fd)
  }
}

async function sameBytes(
  { fs, chunk, otherChunk }: BucketContext,
  source: { fd: number; sizeBytes: number; path: string },
  fd: number,
  call: Call,
): Promise<boolean> {
  for (let at = 0; at < source.sizeBytes;) {
    const want = Math.min(chunk.length, source.sizeBytes - at)
    const bytes = onLocal(source.path, () => fs.readSync(source.fd, chunk, 0, want, at))
    const others = fs.readSync(fd, otherChunk, 0, want, at)
    // Short reads of regular files mean that one of them is changing: no case for a short cut.
    if (bytes !== want || others !== want) return false
    if (chunk.compare(otherChunk, 0, want, 0, want) !== 0) return false
    at += want
    // No totals: bytes compared are not bytes stored, and the writing may be still to come.
    if (at < source.sizeBytes) await call.progress({ objects: 0, bytes: 0 })
  }
  return true
}
