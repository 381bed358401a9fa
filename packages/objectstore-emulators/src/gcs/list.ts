import { invalid } from './api-error.ts'
import { numberOf } from './gcs-request.ts'
import { objectResource } from './object-resource.ts'
import type { ObjectTable } from './object-table.ts'

/** One page of a listing. @see https://cloud.google.com/storage/docs/json_api/v1/objects/list */
export function listObjects(
  table: ObjectTable,
  bucket: string,
  query: URLSearchParams,
  pageSize: number,
): Record<string, unknown> {
  const found = table.listed(bucket, query.get('prefix') ?? '')
  const token = query.get('pageToken')
  const after = token === null ? undefined : Buffer.from(token, 'base64url')
  if (after !== undefined && after.length === 0) throw invalid('Invalid value for pageToken')
  const rest = after === undefined ? found : found.filter(({ name }) => Buffer.compare(Buffer.from(name), after) > 0)
  const asked = numberOf(query, 'maxResults') ?? pageSize
  const page = rest.slice(0, Math.max(1, Math.min(asked, pageSize)))
  const last = page.at(-1)
  return {
    kind: 'storage#objects',
    ...(last !== undefined && page.length < rest.length
      ? { nextPageToken: Buffer.from(last.name).toString('base64url') }
      : {}),
    ...(page.length === 0 ? {} : { items: page.map((object) => objectResource(bucket, object)) }),
  }
}
