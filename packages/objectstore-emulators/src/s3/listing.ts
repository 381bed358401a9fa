import { sortedKeys } from './bucket.ts'
import type { Answer, Exchange } from './exchange.ts'
import { Refusal } from './refusal.ts'
import { escapeXml, xmlDocument } from './xml.ts'

const PAGE_SIZE = 1000

/** One page of a listing, of version 1 or 2 of the call. */
export function listObjects({ bucketState, bucket, query, quirks, operation }: Exchange): Answer {
  const v2 = operation === 'ListObjectsV2'
  const prefix = query.get('prefix') ?? ''
  const delimiter = query.get('delimiter') ?? ''
  const asked = Number(query.get('max-keys') ?? PAGE_SIZE)
  const pageSize = Math.min(asked, quirks.pageSize ?? PAGE_SIZE)
  const token = query.get('continuation-token')
  const after = token === null ? (query.get(v2 ? 'start-after' : 'marker') ?? '') : fromToken(token)
  const write = query.get('encoding-type') === 'url' ? urlEncode : escapeXml
  const objects = bucketState.shown ?? bucketState.objects
  const entries = entriesOf(sortedKeys(objects.keys()), prefix, delimiter).filter(({ name }) => isAfter(name, after))
  const page = entries.slice(0, pageSize)
  const truncated = entries.length > page.length && pageSize > 0
  const last = page.at(-1)?.name ?? ''
  const items = page.map(({ name, isPrefix }) => {
    if (isPrefix) return `<CommonPrefixes><Prefix>${write(name)}</Prefix></CommonPrefixes>`
    const object = objects.get(name)
    if (object === undefined) return ''
    const facts = `<LastModified>${object.modified.toISOString()}</LastModified><ETag>${escapeXml(object.etag)}</ETag>`
    return `<Contents><Key>${write(name)}</Key>${facts}<Size>${quirks.listsSizesAs ?? object.sizeBytes}</Size><StorageClass>STANDARD</StorageClass></Contents>`
  })
  const next = !truncated
    ? ''
    : v2
      ? `<NextContinuationToken>${toToken(last)}</NextContinuationToken>`
      : `<NextMarker>${write(last)}</NextMarker>`
  const inner = [
    `<Name>${bucket}</Name><Prefix>${write(prefix)}</Prefix><MaxKeys>${asked}</MaxKeys>`,
    v2 ? `<KeyCount>${page.length}</KeyCount>` : '',
    delimiter === '' ? '' : `<Delimiter>${write(delimiter)}</Delimiter>`,
    query.get('encoding-type') === 'url' ? '<EncodingType>url</EncodingType>' : '',
    `<IsTruncated>${truncated}</IsTruncated>`,
    next,
    ...items,
  ]
  return { status: 200, body: xmlDocument('ListBucketResult', inner.join('')) }
}

function entriesOf(keys: string[], prefix: string, delimiter: string): { name: string; isPrefix: boolean }[] {
  const entries: { name: string; isPrefix: boolean }[] = []
  let lastPrefix: string | undefined
  for (const key of keys) {
    if (!key.startsWith(prefix)) continue
    const cut = delimiter === '' ? -1 : key.indexOf(delimiter, prefix.length)
    if (cut < 0) entries.push({ name: key, isPrefix: false })
    else {
      const name = key.slice(0, cut + delimiter.length)
      if (name !== lastPrefix) entries.push({ name, isPrefix: true })
      lastPrefix = name
    }
  }
  return entries
}

function isAfter(name: string, after: string): boolean {
  return after === '' || Buffer.from(name).compare(Buffer.from(after)) > 0
}

function toToken(name: string): string {
  return `1${Buffer.from(name).toString('base64url')}`
}

function fromToken(token: string): string {
  if (!token.startsWith('1')) {
    throw new Refusal(400, 'InvalidArgument', 'The continuation token provided is incorrect')
  }
  return Buffer.from(token.slice(1), 'base64url').toString()
}

/** As Amazon writes keys under `encoding-type=url`: a space is a plus, and slashes stay. */
function urlEncode(text: string): string {
  return encodeURIComponent(text)
    .replaceAll(/[!'()]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`)
    .replaceAll('%2F', '/')
    .replaceAll('%20', '+')
}
