import type { S3Client } from '@aws-sdk/client-s3'
import { isCredentialFailure, toRequestError } from '../errors.ts'
import type { Gate } from '../gate.ts'
import type { S3Options } from '../options.ts'
import type { ClientsLease, SharedClients } from './shared-clients.ts'

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

/** How the operations of one backend reach its store: its options, and its share in clients, credentials and room. */
export class Connection {
  readonly options: S3Options
  readonly slots: Gate
  readonly memory: Gate
  readonly probes: Map<string, Promise<void>>
  readonly #shared: SharedClients
  readonly #lease: ClientsLease

  constructor(options: S3Options, lease: ClientsLease) {
    this.options = options
    this.#lease = lease
    this.#shared = lease.shared
    this.slots = lease.shared.slots
    this.memory = lease.shared.memory
    this.probes = lease.shared.probes
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
    const { clients, credentials } = this.#shared
    const client = once === true ? clients.once : clients.retrying
    try {
      return await untilAborted(request(client, signal === undefined ? {} : { abortSignal: signal }), signal)
    } catch (error) {
      signal?.throwIfAborted()
      const failure = toRequestError(error, operation, key)
      if (isCredentialFailure(failure)) credentials.forget()
      throw failure
    }
  }

  /** Gives its share back. */
  release(): void {
    this.#lease.release()
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
