import type { Slices } from '@nexus/host'
import { isEnginePlace, META_PATH } from '@nexus/durability/names'
import { totalBytes, type Manifest } from '@nexus/durability/tools'
import { refuseFoldedTwins } from '@nexus/objectstore'
import { archiveItems, MOST_TRAILER_BYTES, refused } from './archive-format.ts'
import { staysHere } from './plan-export.ts'

/**
 * Refuses a list of files that no export writes. That every path stays inside, and none lies below a file or a link, was
 * seen when the list was read.
 *
 * @param sessionsRoot where it is going to be unpacked; need not exist
 * @returns bytes of all files
 */
export async function checkContent(
  manifest: Manifest,
  sessionsRoot: string,
  slices: Slices,
): Promise<{ bytes: number }> {
  const { _schema_version: version, objects, dirs, links } = manifest
  if (version === 1) throw refused('its manifest has no digests')
  for (const path of objects) if (staysHere(path, 'file')) throw refused(`${path} never leaves its machine`)
  for (const path of Object.keys(dirs))
    if (staysHere(path, 'directory')) throw refused(`${path} never leaves its machine`)
  for (const path of Object.keys(links)) {
    if (staysHere(path, 'link')) throw refused(`${path} never leaves its machine`)
    if (isEnginePlace(path)) throw refused(`${path} is a link where the engine keeps something of its own`)
  }
  if (!objects.includes(META_PATH)) throw refused(`it holds no ${META_PATH}, so it is no session`)
  await refuseFoldedTwins(
    objects.map((relPath) => ({ key: relPath, relPath })),
    sessionsRoot,
    slices,
  )
  const bytes = await totalBytes(manifest, slices)
  if (!Number.isSafeInteger(bytes)) throw refused('its sizes can not be')
  return { bytes }
}

const BLOCK_BYTES = 512

/** The most bytes that a tar of this content can have, as anybody would write it. */
export function mostBytesOf(manifest: Manifest, manifestBytes: number): number {
  // Padding of a whole record at the end, the manifest's own header and the trailer.
  let most = manifestBytes + MOST_TRAILER_BYTES + 64 * 1024
  for (const { name, target, sizeBytes } of archiveItems(manifest)) {
    const records = 2 * (Buffer.byteLength(name) + Buffer.byteLength(target)) + 4096
    most += 4 * BLOCK_BYTES + records + sizeBytes
  }
  return most
}
