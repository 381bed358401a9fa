import { joinKey, type Clock, retrying, type Waiter } from '@nexus/objectstore'
import type { GcsClient } from './client/client.ts'
import type { GcsOptions } from './options.ts'
import { classifyGcsError } from './errors.ts'

/** What the operations on one bucket share. */
export interface Bucket {
  readonly options: GcsOptions
  readonly client: GcsClient
  readonly clock: Clock
  /** What only close waits for. Each ends by itself in seconds and never rejects. */
  readonly background: Set<Promise<void>>
}

/**
 * Repeats an attempt while it fails in a way that passes, for as long as the options allow. An attempt that got further than
 * the one before begins a new row of failures.
 *
 * @param reached a number that grows as attempts get further
 */
export function repeat<T>(
  { options, clock }: Bucket,
  { signal, onWait }: Waiter,
  attempt: () => Promise<T>,
  reached: () => number = () => 0,
): Promise<T> {
  const patience = { attempts: Infinity, patienceMs: options.retryTimeoutMs, clock, onWait, reached }
  return retrying(classifyGcsError, attempt, signal, patience)
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
