import { ListObjectsV2Command } from '@aws-sdk/client-s3'
import {
  joinKey,
  listingPrefix,
  NexusError,
  type ObjectInfo,
  type OpOptions,
  quoteKey,
  trimKeyPrefix,
} from '@nexus/objectstore'
import type { Connection } from './client/connection.ts'
import { unexpectedAnswer } from './errors.ts'

/**
 * Every object of the bucket below a prefix, with store-relative keys, folder placeholders included, page by page to the end.
 *
 * @throws NexusError `CORRUPT` when the store says that more follows and not how to get it: a listing that is short reads as
 *   objects that were deleted
 */
export async function listRaw(
  connection: Connection,
  keyPrefix: string,
  { signal, onProgress }: OpOptions,
): Promise<ObjectInfo[]> {
  const { bucket, prefix } = connection.options
  const below = keyPrefix === '' ? prefix : joinKey(prefix, keyPrefix)
  const rawPrefix = listingPrefix(below)
  const context = { operation: 'ListObjectsV2', key: rawPrefix, signal }
  const objects: ObjectInfo[] = []
  let token: string | undefined
  const seen = new Set<string>()
  do {
    const input = {
      Bucket: bucket,
      Prefix: rawPrefix,
      // Without it a key with a control character makes the answer unreadable XML.
      EncodingType: 'url' as const,
      ...(token === undefined ? {} : { ContinuationToken: token }),
    }
    const page = await connection.send(context, (client, options) =>
      client.send(new ListObjectsV2Command(input), options),
    )
    // An answer that only looks like an empty listing would read as a session that nobody has ever seen.
    if (page.IsTruncated === undefined) throw unexpectedAnswer('ListObjectsV2', rawPrefix, 'IsTruncated')
    const decode = page.EncodingType === 'url' ? decodeKey : (raw: string): string => raw
    for (const { Key, Size, LastModified } of page.Contents ?? []) {
      if (Key === undefined) continue
      const key = trimKeyPrefix(decode(Key), prefix)
      if (key === undefined) continue
      objects.push({ key, size: Size ?? 0, ...(LastModified === undefined ? {} : { modTime: LastModified }) })
    }
    const next = page.NextContinuationToken
    if (page.IsTruncated && (next === undefined || next === '' || seen.has(next))) {
      const message = `the store cut the listing of ${quoteKey(rawPrefix)} after ${objects.length} objects without a way to go on`
      throw new NexusError('CORRUPT', message, { op: 'objectstore.list', key: keyPrefix })
    }
    token = page.IsTruncated ? next : undefined
    if (token !== undefined) seen.add(token)
    signal?.throwIfAborted()
    onProgress?.({ objects: objects.length, bytes: 0 })
  } while (token !== undefined)
  return objects
}

/** A key as `encoding-type=url` writes it: percent-encoded UTF-8, where some stores write a space as `+`. */
export function decodeKey(encoded: string): string {
  const spaced = encoded.replaceAll('+', ' ')
  try {
    return decodeURIComponent(spaced)
  } catch {
    // Bytes that are no UTF-8: no key of ours. Shown with U+FFFD, as everywhere.
    const bytes = spaced.replaceAll(/%([0-9A-Fa-f]{2})/g, (_, hex: string) =>
      String.fromCharCode(Number.parseInt(hex, 16)),
    )
    return Buffer.from(bytes, 'latin1').toString()
  }
}
