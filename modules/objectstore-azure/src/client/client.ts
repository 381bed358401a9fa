import type { ContainerClient } from '@azure/storage-blob'
import { Attempt, type Clock, isNexusError, Slots, untilAborted, type Waiter } from '@nexus/objectstore'
import { AzureError, classifyAzureError, toAzureError } from '../errors.ts'
import type { AzureOptions } from '../options.ts'
import type { Credentials } from './credentials.ts'

/** One request, for {@link AzureClient.send}. */
export interface RequestContext extends Waiter {
  /** The API's name of the operation, for errors. */
  op: string
  signal: AbortSignal
  /** Bytes of its body. */
  sentBytes?: number
  /** Bytes of the answer, where they are known to be many. */
  answerBytes?: number | undefined
}

/** Requests over the SDK's client, each in a slot, under watch, and once. */
export class AzureClient {
  readonly slots: Slots
  readonly #credentials: Credentials
  readonly #options: AzureOptions
  readonly #clock: Clock

  constructor(options: AzureOptions, credentials: Credentials, clock: Clock) {
    this.#options = options
    this.#credentials = credentials
    this.#clock = clock
    this.slots = new Slots(options.concurrency)
  }

  /** Whether the store is the vendor's own, whose word on conditions is good. */
  get isVendor(): boolean {
    return VENDOR_HOST.test(new URL(this.#credentials.client.url).hostname)
  }

  /**
   * Makes one request, and reads its answer, in a slot. Settles at once when the signal fires, whatever the SDK is waiting
   * for.
   *
   * @throws AzureError; the signal's reason; what `request` throws of the local disk
   */
  async send<T>(
    context: RequestContext,
    request: (container: ContainerClient, attempt: Attempt) => Promise<T>,
  ): Promise<T> {
    const { sentBytes = 0, answerBytes = 0 } = context
    const leave = await this.slots.enter(Math.max(sentBytes, answerBytes), context)
    try {
      return await this.sendInSlot(context, request)
    } finally {
      leave()
    }
  }

  /** As {@link send}, for a caller that has a slot. */
  async sendInSlot<T>(
    { op, signal, sentBytes = 0 }: RequestContext,
    request: (container: ContainerClient, attempt: Attempt) => Promise<T>,
  ): Promise<T> {
    const answered = this.slots.hand(sentBytes)
    const { client } = this.#credentials
    const attempt = new Attempt(signal, {
      idleTimeoutMs: this.#options.idleTimeoutMs,
      drainMs: () => (sentBytes === 0 ? 0 : this.slots.drainMs),
      silence: (silentMs) => {
        const message = `${op} got no answer: nothing moved for ${silentMs / 1000} s`
        return new AzureError(op, message, { kind: 'network', code: undefined, sent: true })
      },
      clock: this.#clock,
    })
    try {
      const container = client.getContainerClient(this.#options.container)
      return await untilAborted(request(container, attempt), attempt.signal)
    } catch (error) {
      const reason = attempt.explain(error)
      if (signal.aborted || isOurs(reason)) throw reason
      const failure = toAzureError(op, reason)
      if (classifyAzureError(failure) === 'permission') this.#credentials.refused(client)
      throw failure
    } finally {
      attempt.stop()
      answered()
    }
  }
}

// Public and sovereign clouds, and accounts in DNS zones.
const VENDOR_HOST = /\.blob\.(?:core\.(?:windows\.net|chinacloudapi\.cn|usgovcloudapi\.net)|storage\.azure\.net)$/

/** Errors that already say what they are: ours, and those of the caller's disk. */
function isOurs(error: unknown): boolean {
  if (error instanceof AzureError || isNexusError(error)) return true
  return error instanceof Error && 'path' in error && typeof error.path === 'string'
}
