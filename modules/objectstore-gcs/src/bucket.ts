import { joinKey, type Clock } from '@nexus/objectstore'
import type { GcsClient } from './client/client.ts'
import type { GcsOptions } from './options.ts'
import type { RetryPolicy } from './client/retry.ts'

/** What the operations on one bucket share. */
export interface Bucket {
  readonly options: GcsOptions
  readonly client: GcsClient
  readonly clock: Clock
  readonly retry: RetryPolicy
  /** What nobody waits for but close. Each ends by itself in seconds and never rejects. */
  readonly background: Set<Promise<void>>
}

type Query = Readonly<Record<string, string | undefined>>

/** The name in the bucket of a key. */
export function objectName({ options }: Bucket, key: string): string {
  return joinKey(options.prefix, key)
}

/** URL of the bucket's objects, or of one of them. */
export function objectUrl(bucket: Bucket, name: string | undefined, query: Query = {}): string {
  return withQuery(
    bucket,
    `${bucket.options.apiUrl}${objectsPath(bucket)}${name === undefined ? '' : `/${encodeURIComponent(name)}`}`,
    query,
  )
}

/** URL that uploads go to. */
export function uploadUrl(bucket: Bucket, query: Query): string {
  return withQuery(bucket, `${bucket.options.uploadUrl}${objectsPath(bucket)}`, query)
}

function objectsPath({ options }: Bucket): string {
  return `/b/${encodeURIComponent(options.bucket)}/o`
}

function withQuery({ options }: Bucket, url: string, query: Query): string {
  const parameters = new URLSearchParams()
  for (const [name, value] of Object.entries({ ...query, userProject: options.userProject })) {
    if (value !== undefined) parameters.set(name, value)
  }
  const text = parameters.toString()
  return text === '' ? url : `${url}?${text}`
}
