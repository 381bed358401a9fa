import type { S3Client } from '@aws-sdk/client-s3'
import type { Clients } from './client.ts'
import type { CredentialSource } from './credentials.ts'
import { isCredentialFailure, toRequestError } from './errors.ts'
import { Gate } from './gate.ts'
import type { S3Options } from './options.ts'

/** Bytes of bodies held in memory at once, by all requests together. */
const MEMORY_BYTES = 64 * 1024 * 1024

/** One request, for {@link Connection.send}. */
export interface RequestContext {
  /** `PutObject`, ... for errors. */
  operation: string
  /** The object's full key in the bucket, for errors; empty where there is none. */
  key: string
  signal?: AbortSignal | undefined
  /** Sent once only. Default: retried by the SDK. */
  once?: boolean
}

/** What the operations of one backend share: clients, credentials, and how much may happen at once. */
export class Connection {
  readonly options: S3Options
  /** Requests in flight. A download stays inside until its body has arrived. */
  readonly slots: Gate
  readonly memory: Gate = new Gate(MEMORY_BYTES)
  readonly #clients: Clients
  readonly #credentials: CredentialSource

  constructor(options: S3Options, clients: Clients, credentials: CredentialSource) {
    this.options = options
    this.slots = new Gate(options.concurrency)
    this.#clients = clients
    this.#credentials = credentials
  }

  /**
   * Sends one request: waits for a slot, and settles at once when the signal fires, whatever the SDK is waiting for.
   *
   * @throws S3RequestError what the store or the connection refused; the signal's reason
   */
  async send<T>(
    { operation, key, signal, once }: RequestContext,
    request: (client: S3Client, options: { abortSignal?: AbortSignal }) => Promise<T>,
  ): Promise<T> {
    const leave = await this.slots.enter(1, signal)
    try {
      return await this.sendInside({ operation, key, signal, once: once ?? false }, request)
    } finally {
      leave()
    }
  }

  /** As {@link send}, for a caller that has a slot. */
  async sendInside<T>(
    { operation, key, signal, once }: RequestContext,
    request: (client: S3Client, options: { abortSignal?: AbortSignal }) => Promise<T>,
  ): Promise<T> {
    const client = once === true ? this.#clients.once : this.#clients.retrying
    try {
      return await untilAborted(request(client, signal === undefined ? {} : { abortSignal: signal }), signal)
    } catch (error) {
      signal?.throwIfAborted()
      const failure = toRequestError(error, operation, key)
      if (isCredentialFailure(failure)) this.#credentials.forget()
      throw failure
    }
  }

  destroy(): void {
    this.#clients.destroy()
  }
}

/** The promise's outcome, or the signal's reason when that fires first; what becomes of the promise then is ignored. */
export function untilAborted<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return promise
  return new Promise((resolve, reject) => {
    const onAbort = (): void => reject(signal.reason as Error)
    if (signal.aborted) onAbort()
    else signal.addEventListener('abort', onAbort, { once: true })
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort))
  })
}
