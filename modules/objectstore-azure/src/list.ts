import type {
  ContainerListBlobsOptions,
  ContainerListBlobFlatSegmentResponse,
  ContainerListBlobHierarchySegmentResponse,
} from '@azure/storage-blob'
import {
  isFolderPlaceholder,
  listingPrefix,
  type ObjectInfo,
  type OpOptions,
  quoteKey,
  trimKeyPrefix,
} from '@nexus/objectstore'
import { type Container, repeat } from './container.ts'
import { unexpectedAnswer } from './errors.ts'

const OP = 'List Blobs'

type Page = ContainerListBlobFlatSegmentResponse | ContainerListBlobHierarchySegmentResponse
type Item = Page['segment']['blobItems'][number]

/** Every object under a prefix, all pages, with store-relative keys; placeholders of consoles are left out. */
export async function listObjects(container: Container, keyPrefix: string, options: OpOptions): Promise<ObjectInfo[]> {
  const { prefix } = container.options
  const objects: ObjectInfo[] = []
  for await (const { segment } of pagesOf(container, listingPrefix(prefix, keyPrefix), 'flat', options)) {
    for (const item of segment.blobItems.filter(isBlob)) {
      const key = trimKeyPrefix(item.name, prefix)
      if (key === undefined) continue
      const { contentLength: size, lastModified } = item.properties
      // Read as 0 it would be taken for a placeholder, or for a file that is empty.
      if (size === undefined || !Number.isSafeInteger(size) || size < 0) {
        throw unexpectedAnswer(OP, `an answer with a size of ${quoteKey(key)} that is none`)
      }
      if (isFolderPlaceholder(key, size)) continue
      objects.push({ key, size, ...(lastModified === undefined ? {} : { modTime: lastModified }) })
    }
    options.onProgress?.({ objects: objects.length, bytes: 0 })
  }
  return objects
}

/** The names one level below a prefix, by the store's delimiter: what lies deeper is not read. */
export async function listNames(container: Container, keyPrefix: string, options: OpOptions): Promise<string[]> {
  const asked = listingPrefix(container.options.prefix, keyPrefix)
  const names = new Set<string>()
  for await (const { segment } of pagesOf(container, asked, 'hierarchy', options)) {
    const prefixes = 'blobPrefixes' in segment ? (segment.blobPrefixes ?? []) : []
    const found = [
      ...prefixes.map(({ name }) => name.slice(asked.length, -1)),
      ...segment.blobItems.filter(isBlob).map(({ name }) => name.slice(asked.length)),
    ]
    // Without one: the prefix's own placeholder, and keys with an empty segment.
    for (const name of found) if (name !== '') names.add(name)
    options.onProgress?.({ objects: names.size, bytes: 0 })
  }
  return [...names]
}

/** Accounts with a hierarchical namespace list their directories as blobs without content. */
function isBlob({ metadata }: Item): boolean {
  return metadata?.['hdi_isfolder'] !== 'true'
}

async function* pagesOf(
  container: Container,
  prefix: string,
  shape: 'flat' | 'hierarchy',
  { signal = new AbortController().signal, onWait }: OpOptions,
): AsyncGenerator<Page> {
  const { client, options } = container
  const seen = new Set<string>()
  let marker: string | undefined
  do {
    signal.throwIfAborted()
    const context = { op: OP, signal, onWait }
    const page = await repeat(container, context, () =>
      client.send(context, async (blobs, attempt) => {
        const asked: ContainerListBlobsOptions = { includeMetadata: true, abortSignal: attempt.signal }
        if (prefix !== '') asked.prefix = prefix
        const listing = shape === 'flat' ? blobs.listBlobsFlat(asked) : blobs.listBlobsByHierarchy('/', asked)
        const settings = {
          maxPageSize: options.pageSize,
          ...(marker === undefined ? {} : { continuationToken: marker }),
        }
        return checkPage((await listing.byPage(settings).next()).value as Page | undefined)
      }),
    )
    yield page
    marker = page.continuationToken
    if (marker !== undefined && seen.has(marker)) throw unexpectedAnswer(OP, 'a page that was there before')
    seen.add(marker ?? '')
  } while (marker !== undefined && marker !== '')
}

/** Half a page, or whatever a proxy has to say, read as an empty one would hide every object. */
function checkPage(page: Page | undefined): Page {
  if (page?.containerName !== undefined && Array.isArray(page.segment?.blobItems)) return page
  throw unexpectedAnswer(OP, 'an answer that is no listing')
}
