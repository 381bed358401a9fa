import { type Clock, joinKey, retrying, type Waiter } from '@nexus/objectstore'
import type { AzureClient } from './client/client.ts'
import { classifyAzureError } from './errors.ts'
import type { AzureOptions } from './options.ts'

/** What the operations on one container share. */
export interface Container {
  readonly options: AzureOptions
  readonly client: AzureClient
  readonly clock: Clock
}

/**
 * Repeats an attempt while it fails in a way that passes, for as long as the options allow. An attempt that got further than
 * the one before begins a new row of failures.
 *
 * @param reached a number that grows as attempts get further
 */
export function repeat<T>(
  { options, clock }: Container,
  { signal, onWait }: Waiter,
  attempt: () => Promise<T>,
  reached: () => number = () => 0,
): Promise<T> {
  const patience = { attempts: Infinity, patienceMs: options.retryTimeoutMs, clock, onWait, reached }
  return retrying(classifyAzureError, attempt, signal, patience)
}

/** The name in the container of a key. */
export function blobName({ options }: Container, key: string): string {
  return joinKey(options.prefix, key)
}
