import { invalid } from './api-error.ts'
import { numberOf } from './gcs-request.ts'
import { objectResource } from './object-resource.ts'
import type { GcsQuirks } from './quirks.ts'
import type { ObjectTable, StoredObject } from './object-table.ts'

/** One page of a listing. @see https://cloud.google.com/storage/docs/json_api/v1/objects/list */
export function listObjects(
  table: ObjectTable,
  bucket: string,
  query: URLSearchParams,
  pageSize: number,
  { listsSizesAs }: GcsQuirks = {},
): Record<string, unknown> {
  const prefix = query.get('prefix') ?? ''
  const found = grouped(table.listed(bucket, prefix), prefix, query.get('delimiter') ?? '')
  const token = query.get('pageToken')
  const after = token === null ? undefined : Buffer.from(token, 'base64url')
  if (after !== undefined && after.length === 0) throw invalid('Invalid value for pageToken')
  const rest = after === undefined ? found : found.filter(({ name }) => Buffer.compare(Buffer.from(name), after) > 0)
  const asked = numberOf(query, 'maxResults') ?? pageSize
  const page = rest.slice(0, Math.max(1, Math.min(asked, pageSize)))
  const last = page.at(-1)
  const items = page.flatMap(({ object }) => (object === undefined ? [] : [object]))
  const prefixes = page.flatMap(({ name, object }) => (object === undefined ? [name] : []))
  return {
    kind: 'storage#objects',
    ...(last !== undefined && page.length < rest.length
      ? { nextPageToken: Buffer.from(last.name).toString('base64url') }
      : {}),
    ...(items.length === 0
      ? {}
      : {
          items: items.map((object) => ({
            ...objectResource(bucket, object),
            ...(listsSizesAs === undefined ? {} : { size: listsSizesAs }),
          })),
        }),
    ...(prefixes.length === 0 ? {} : { prefixes }),
  }
}

interface Entry {
  name: string
  /** Undefined for a name that stands for all that begin with it. */
  object?: StoredObject
}

/** What a delimiter makes of a listing: one entry for all names that are the same up to it. */
function grouped(found: readonly StoredObject[], prefix: string, delimiter: string): Entry[] {
  if (delimiter === '') return found.map((object) => ({ name: object.name, object }))
  const entries = new Map<string, Entry>()
  for (const object of found) {
    const cut = object.name.indexOf(delimiter, prefix.length)
    const name = cut < 0 ? object.name : object.name.slice(0, cut + delimiter.length)
    entries.set(name, cut < 0 ? { name, object } : { name })
  }
  return [...entries.values()]
}
