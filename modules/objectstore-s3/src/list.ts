import { ListObjectsV2Command, type ListObjectsV2CommandOutput } from '@aws-sdk/client-s3'
import {
  isFolderPlaceholder,
  listingPrefix,
  NexusError,
  type ObjectInfo,
  type OpOptions,
  quoteKey,
  trimKeyPrefix,
} from '@nexus/objectstore'
import type { Connection } from './client/connection.ts'
import { unexpectedAnswer } from './errors.ts'

/** Every object of the bucket below a prefix, with store-relative keys, folder placeholders included. */
export async function listRaw(connection: Connection, keyPrefix: string, options: OpOptions): Promise<ObjectInfo[]> {
  const { prefix } = connection.options
  const objects: ObjectInfo[] = []
  for await (const { Contents = [], decode, asked } of pagesOf(connection, keyPrefix, options, undefined)) {
    for (const { Key, Size, LastModified } of Contents) {
      const key = Key === undefined ? undefined : trimKeyPrefix(decode(Key), prefix)
      if (key === undefined) continue
      // Read as 0 it would be taken for a placeholder, or for a file that is empty.
      if (Size === undefined || !Number.isSafeInteger(Size) || Size < 0) {
        throw unexpectedAnswer('ListObjectsV2', asked, `size of ${quoteKey(key)}`)
      }
      objects.push({ key, size: Size, ...(LastModified === undefined ? {} : { modTime: LastModified }) })
    }
    options.onProgress?.({ objects: objects.length, bytes: 0 })
  }
  return objects
}

/** The names one level below a prefix, by the store's delimiter: what lies deeper is not read. */
export async function listNames(connection: Connection, keyPrefix: string, options: OpOptions): Promise<string[]> {
  const names = new Set<string>()
  for await (const { Contents = [], CommonPrefixes = [], decode, asked } of pagesOf(
    connection,
    keyPrefix,
    options,
    '/',
  )) {
    const found = [
      ...CommonPrefixes.map(({ Prefix = '' }) => decode(Prefix).slice(asked.length, -1)),
      ...Contents.map(({ Key = '' }) => decode(Key).slice(asked.length)),
    ]
    // Without one: the prefix's own placeholder, and keys with an empty segment.
    for (const name of found) if (name !== '') names.add(name)
    options.onProgress?.({ objects: names.size, bytes: 0 })
  }
  return [...names]
}

/** Leaves out the placeholders of consoles below the prefix. */
export function withoutPlaceholders(objects: readonly ObjectInfo[], keyPrefix: string): ObjectInfo[] {
  return objects.filter(({ key, size }) => {
    const below = trimKeyPrefix(key, keyPrefix)
    return below !== undefined && !isFolderPlaceholder(below, size)
  })
}

interface Page extends ListObjectsV2CommandOutput {
  decode: (raw: string) => string
  /** The raw prefix that was asked for. */
  asked: string
}

/**
 * The pages of a listing, to the end.
 *
 * @throws NexusError `CORRUPT` when the store says that more follows and not how to get it: a listing that is short reads as
 *   objects that were deleted
 */
async function* pagesOf(
  connection: Connection,
  keyPrefix: string,
  { signal, onWait }: OpOptions,
  delimiter: string | undefined,
): AsyncGenerator<Page> {
  const { bucket, prefix } = connection.options
  const asked = listingPrefix(prefix, keyPrefix)
  const context = { operation: 'ListObjectsV2', key: asked, signal, onWait }
  const seen = new Set<string>()
  let token: string | undefined
  do {
    const input = {
      Bucket: bucket,
      Prefix: asked,
      // Without it a key with a control character makes the answer unreadable XML.
      EncodingType: 'url' as const,
      ...(delimiter === undefined ? {} : { Delimiter: delimiter }),
      ...(token === undefined ? {} : { ContinuationToken: token }),
    }
    const page = await connection.send(context, (client, each) => client.send(new ListObjectsV2Command(input), each))
    // An answer that only looks like an empty listing would read as a session that was never there.
    if (page.IsTruncated === undefined) throw unexpectedAnswer('ListObjectsV2', asked, 'IsTruncated')
    yield { ...page, asked, decode: page.EncodingType === 'url' ? decodeKey : (raw) => raw }
    const next = page.NextContinuationToken
    if (page.IsTruncated && (next === undefined || next === '' || seen.has(next))) {
      const message = `the store cut the listing of ${quoteKey(asked)} without a way to go on`
      throw new NexusError('CORRUPT', message, { op: 'objectstore.list', key: keyPrefix })
    }
    token = page.IsTruncated ? next : undefined
    if (token !== undefined) seen.add(token)
    signal?.throwIfAborted()
  } while (token !== undefined)
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
