import {
  isFolderPlaceholder,
  listingPrefix,
  type ObjectInfo,
  type OpOptions,
  quoteKey,
  trimKeyPrefix,
} from '@nexus/objectstore'
import { type Bucket, objectUrl, repeat } from './bucket.ts'
import { GcsError } from './errors.ts'

/** The vendor's largest page. */
const PAGE_OBJECTS = 1000
const FIELDS = 'kind,nextPageToken,prefixes,items(name,size,updated)'
/** What every page says of itself. */
const KIND = 'storage#objects'
const OP = 'objects.list'

interface Page {
  kind?: string
  nextPageToken?: string
  prefixes?: string[]
  items?: { name: string; size: string; updated?: string }[]
}

/** Every object under a prefix, all pages, with store-relative keys; placeholders of consoles are left out. */
export async function listObjects(bucket: Bucket, keyPrefix: string, options: OpOptions): Promise<ObjectInfo[]> {
  const { prefix } = bucket.options
  const objects: ObjectInfo[] = []
  for await (const { items = [] } of pagesOf(bucket, listingPrefix(prefix, keyPrefix), undefined, options)) {
    for (const { name, size, updated } of items) {
      const key = trimKeyPrefix(name, prefix)
      if (key === undefined) continue
      const sizeBytes = /^\d+$/.test(size) ? Number(size) : Number.NaN
      if (!Number.isSafeInteger(sizeBytes)) throw nonsense(`a size of ${quoteKey(key)} that is none`)
      if (isFolderPlaceholder(key, sizeBytes)) continue
      objects.push({ key, size: sizeBytes, ...(updated === undefined ? {} : { modTime: new Date(updated) }) })
    }
    options.onProgress?.({ objects: objects.length, bytes: 0 })
  }
  return objects
}

/** The names one level below a prefix, by the store's delimiter: what lies deeper is not read. */
export async function listNames(bucket: Bucket, keyPrefix: string, options: OpOptions): Promise<string[]> {
  const asked = listingPrefix(bucket.options.prefix, keyPrefix)
  const names = new Set<string>()
  for await (const { items = [], prefixes = [] } of pagesOf(bucket, asked, '/', options)) {
    const found = [
      ...prefixes.map((name) => name.slice(asked.length, -1)),
      ...items.map(({ name }) => name.slice(asked.length)),
    ]
    // Without one: the prefix's own placeholder, and keys with an empty segment.
    for (const name of found) if (name !== '') names.add(name)
    options.onProgress?.({ objects: names.size, bytes: 0 })
  }
  return [...names]
}

async function* pagesOf(
  bucket: Bucket,
  prefix: string,
  delimiter: string | undefined,
  { signal = new AbortController().signal, onWait }: OpOptions,
): AsyncGenerator<Page> {
  let pageToken: string | undefined
  const seen = new Set<string>()
  do {
    signal.throwIfAborted()
    const query = {
      maxResults: String(PAGE_OBJECTS),
      fields: FIELDS,
      prefix: prefix === '' ? undefined : prefix,
      delimiter,
      pageToken,
    }
    const request = { op: OP, method: 'GET', url: objectUrl(bucket, undefined, query), signal, onWait } as const
    const page = await repeat(bucket, request, async () =>
      parsePage(await bucket.client.send(request, (answer) => answer.text())),
    )
    yield page
    pageToken = page.nextPageToken
    if (pageToken !== undefined && seen.has(pageToken)) throw nonsense('a page that was there before')
    seen.add(pageToken ?? '')
  } while (pageToken !== undefined && pageToken !== '')
}

/** Half a page, or whatever a proxy has to say, read as an empty one would hide every object. */
function parsePage(text: string): Page {
  try {
    const page = JSON.parse(text) as Page
    if (page?.kind === KIND) return page
  } catch {
    // Said below.
  }
  throw nonsense('an answer that is no listing')
}

function nonsense(problem: string): GcsError {
  return new GcsError(OP, `${OP} got ${problem}`, { kind: 'network', code: undefined, sent: true })
}
