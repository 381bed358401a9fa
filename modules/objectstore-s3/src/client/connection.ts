import type { S3Client } from '@aws-sdk/client-s3'
import { type CreateVerdicts, retrying, type Slots, untilAborted, type Waiter } from '@nexus/objectstore'
import { classifyS3Error, isCredentialFailure, toRequestError } from '../errors.ts'
import type { S3Options } from '../options.ts'
import type { ClientsLease, SharedClients } from './shared-clients.ts'

/** One request, for {@link Connection.send}. */
export interface RequestContext extends Waiter {
  /** `PutObject`, ... for errors. */
  operation: string
  /** The object's full key in the bucket, for errors; empty where there is none. */
  key: string
}

/** Hands one request to the SDK. */
export type SendRequest<T> = (client: S3Client, options: { abortSignal?: AbortSignal }) => Promise<T>

const DEMANDS_CHECKSUM = new Set(['InvalidRequest', 'MissingContentMD5'])
const CHECKSUM_ADVICE =
  'a bucket with Object Lock takes no upload without a checksum: ' +
  'set core.object_store.options.checksums to when_supported, or to content_md5 for stores that know no other'

/** How the operations of one backend reach its store: its options, and its share in clients, credentials and room. */
export class Connection {
  readonly options: S3Options
  readonly slots: Slots
  readonly verdicts: CreateVerdicts
  readonly #shared: SharedClients
  readonly #lease: ClientsLease

  constructor(options: S3Options, lease: ClientsLease) {
    this.options = options
    this.#lease = lease
    this.#shared = lease.shared
    this.slots = lease.shared.slots
    this.verdicts = lease.shared.verdicts
  }

  /** One request without a body of ours, in a slot, repeated while it fails in a way that passes. */
  send<T>(context: RequestContext, request: SendRequest<T>): Promise<T> {
    return this.repeat(context, 0, () => this.sendOnce(context, request))
  }

  /**
   * Repeats an attempt while it fails in a way that passes. Each one waits for a slot of its own; the pauses between hold none.
   *
   * @param sizeBytes what an attempt moves, as far as known
   */
  repeat<T>(
    { signal, onWait }: Waiter,
    sizeBytes: number,
    attempt: () => Promise<T>,
    attempts: number = this.options.maxAttempts,
  ): Promise<T> {
    return retrying(
      classifyS3Error,
      async () => {
        const leave = await this.slots.enter(sizeBytes, { signal, onWait })
        try {
          return await attempt()
        } finally {
          leave()
        }
      },
      signal,
      { attempts, onWait },
    )
  }

  /**
   * Sends one request once, for a caller that has a slot. Settles at once when the signal fires, whatever the SDK is waiting
   * for.
   *
   * @param how `uploading`: the caller watches for silence itself
   * @throws S3RequestError what the store or the connection refused; the signal's reason
   */
  async sendOnce<T>(
    { operation, key, signal }: RequestContext,
    request: SendRequest<T>,
    how: 'plain' | 'uploading' = 'plain',
  ): Promise<T> {
    const { clients, credentials } = this.#shared
    const client = how === 'uploading' ? clients.uploading : clients.plain
    try {
      return await untilAborted(request(client, signal === undefined ? {} : { abortSignal: signal }), signal)
    } catch (error) {
      signal?.throwIfAborted()
      const failure = toRequestError(error, operation, key, this.#adviceOn(operation))
      if (isCredentialFailure(failure)) credentials.forget()
      throw failure
    }
  }

  /** A store that wants a checksum with every upload says so under a code that stands for much else. */
  #adviceOn(operation: string): ((serviceCode: string) => string | undefined) | undefined {
    const isUpload = operation === 'PutObject' || operation === 'UploadPart'
    if (!isUpload || this.options.checksums !== 'when_required') return undefined
    return (serviceCode) => (DEMANDS_CHECKSUM.has(serviceCode) ? CHECKSUM_ADVICE : undefined)
  }

  /** Gives its share back. */
  release(): void {
    this.#lease.release()
  }
}
