import { BlobCorruptError, type BlobMismatch } from './blob-errors.ts'
import type { BlobFileSystem } from './file-system.ts'
import { hashAll, openBin } from './read-blob.ts'
import { walkStore } from './walk-store.ts'

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
  const found: { sha256: string; path: string }[] = []
  await walkStore(dir, fs, (file) => {
    if (file.kind === 'bin') found.push({ sha256: file.name, path: file.path })
  })
  found.sort((a, b) => (a.sha256 < b.sha256 ? -1 : 1))
  const mismatches: BlobMismatch[] = []
  const result: VerifyResult = { blobs: 0, bytes: 0 }
  for (const { sha256, path } of found) {
    signal?.throwIfAborted()
    const open = openBin(fs, path)
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
