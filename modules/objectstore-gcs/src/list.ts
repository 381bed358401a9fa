import { isFolderPlaceholder, joinKey, listingPrefix, type ObjectInfo, trimKeyPrefix } from '@nexus/objectstore'
import { type Bucket, objectUrl } from './bucket.ts'
import { GcsError } from './errors.ts'
import { withRetries } from './client/retry.ts'

/** The vendor's largest page. */
const PAGE_OBJECTS = 1000
const FIELDS = 'kind,nextPageToken,items(name,size,updated)'
/** What every page says of itself. */
const KIND = 'storage#objects'

interface Page {
  kind?: string
  nextPageToken?: string
  items?: { name: string; size: string; updated?: string }[]
}

/**
 * Every object under a prefix, all pages, with store-relative keys; placeholders of consoles are left out.
 *
 * @param onPage called with how many objects were found so far
 */
export async function listObjects(
  bucket: Bucket,
  keyPrefix: string,
  signal: AbortSignal,
  onPage: (objects: number) => void,
): Promise<ObjectInfo[]> {
  const { prefix: storePrefix } = bucket.options
  const prefix = listingPrefix(joinKey(storePrefix, keyPrefix).replace(/\/$/, ''))
  const objects: ObjectInfo[] = []
  let pageToken: string | undefined
  const seen = new Set<string>()
  do {
    signal.throwIfAborted()
    const page = await withRetries(bucket.retry, signal, () => fetchPage(bucket, prefix, pageToken, signal))
    for (const { name, size, updated } of page.items ?? []) {
      const key = trimKeyPrefix(name, storePrefix)
      const sizeBytes = Number(size)
      if (key === undefined || isFolderPlaceholder(key, sizeBytes)) continue
      objects.push({ key, size: sizeBytes, ...(updated === undefined ? {} : { modTime: new Date(updated) }) })
    }
    onPage(objects.length)
    pageToken = page.nextPageToken
    if (pageToken !== undefined && seen.has(pageToken)) {
      const failure = { kind: 'network', code: undefined, sent: true } as const
      throw new GcsError('objects.list', 'objects.list was sent back to a page that it has had', failure)
    }
    seen.add(pageToken ?? '')
  } while (pageToken !== undefined && pageToken !== '')
  return objects
}

async function fetchPage(
  bucket: Bucket,
  prefix: string,
  pageToken: string | undefined,
  signal: AbortSignal,
): Promise<Page> {
  const op = 'objects.list'
  const query = {
    maxResults: String(PAGE_OBJECTS),
    fields: FIELDS,
    prefix: prefix === '' ? undefined : prefix,
    pageToken,
  }
  const url = objectUrl(bucket, undefined, query)
  const text = await bucket.client.send({ op, method: 'GET', url, signal }, (answer) => answer.text())
  try {
    const page = JSON.parse(text) as Page
    if (page?.kind === KIND) return page
  } catch {
    // Said below.
  }
  // Half a page, or whatever a proxy has to say, read as an empty one would hide every object.
  throw new GcsError(op, `${op} got an answer that is no listing`, { kind: 'network', code: undefined, sent: true })
}
