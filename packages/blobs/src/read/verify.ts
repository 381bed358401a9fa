import { BlobCorruptError, type BlobMismatch } from '../blob-errors.ts'
import type { BlobFileSystem } from '../file-system.ts'
import { hashAll, openBlob } from './read-blob.ts'
import { walkStore } from '../sweep/walk-store.ts'

/** What a verification that found nothing wrong looked at. */
export interface VerifyResult {
  blobs: number
  /** Bytes of their `.bin` files. */
  bytes: number
}

/**
 * Re-hashes every blob of the store, one after the other in flat memory. Blobs that vanish meanwhile are skipped.
 *
 * @throws BlobCorruptError after all were read, naming every blob whose bytes are not what its name says
 */
export async function verifyStore(
  dir: string,
  fs: BlobFileSystem,
  signal: AbortSignal | undefined,
): Promise<VerifyResult> {
  const found: string[] = []
  await walkStore(dir, fs, (file) => {
    if (file.kind === 'bin') found.push(file.name)
  })
  found.sort()
  const mismatches: BlobMismatch[] = []
  const result: VerifyResult = { blobs: 0, bytes: 0 }
  for (const sha256 of found) {
    signal?.throwIfAborted()
    const open = openBlob(fs, dir, sha256)
    if (open === undefined) continue
    try {
      const actual = await hashAll(fs, open.fd)
      if (actual.sha256 !== sha256) mismatches.push({ sha256, actualSha256: actual.sha256 })
      result.blobs++
      result.bytes += actual.sizeBytes
    } finally {
      fs.closeSync(open.fd)
    }
  }
  const [first, ...rest] = mismatches
  if (first !== undefined) throw new BlobCorruptError([first, ...rest], 'blobs.verify')
  return result
}
