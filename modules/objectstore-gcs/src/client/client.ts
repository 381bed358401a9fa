import { Agent as HttpAgent } from 'node:http'
import { Agent as HttpsAgent } from 'node:https'
import type { Readable } from 'node:stream'
import { Attempt, type Clock, decoderOf, encodingOf, isNexusError, Slots, type Waiter } from '@nexus/objectstore'
import type { AuthClient } from 'google-auth-library'
import type { Credentials } from './credentials.ts'
import { answerError, GcsError, networkError, silenceError } from '../errors.ts'
import type { GcsOptions } from '../options.ts'
import { transfer } from './exchange.ts'

/** The body of one request. It is opened anew for every attempt. */
export interface RequestBody {
  sizeBytes: number
  /** @param onBytes to be called as bytes leave */
  open(onBytes: (bytes: number) => void): Readable
}

/** One request to the JSON API. */
export interface ApiRequest extends Waiter {
  /** The API's name of the operation, for errors. */
  op: string
  method: 'GET' | 'POST' | 'PUT' | 'DELETE'
  /** Absolute. */
  url: string
  headers?: Record<string, string>
  body?: RequestBody | string
  /** Statuses that are answers and not failures, besides 2xx. */
  expected?: readonly number[]
  signal: AbortSignal
  /** Bytes of the answer, where they are known to be many. */
  answerBytes?: number | undefined
  /** Called as bytes of the body leave, with how many. */
  onSent?: (bytes: number) => void
}

/** An answer whose body is still to be read. */
export interface ApiAnswer {
  status: number
  headers: Readonly<Record<string, string | undefined>>
  /** The body, without what a proxy may have encoded it with. Silence on it ends the request. */
  chunks(): AsyncGenerator<Buffer>
  /** The whole body, for those that are small. */
  text(): Promise<string>
}

/**
 * Requests over the SDK's authenticated client. The SDK's own object helpers take no abort signal for JSON calls, retry on
 * their own terms and buffer what they retry; its client takes a signal and streams.
 */
export class GcsClient {
  readonly #credentials: Credentials
  readonly #clock: Clock
  readonly #idleTimeoutMs: number
  readonly #slots: Slots
  readonly #agent: HttpAgent | undefined

  constructor(options: GcsOptions, credentials: Credentials, clock: Clock) {
    this.#credentials = credentials
    this.#clock = clock
    this.#idleTimeoutMs = options.idleTimeoutMs
    this.#slots = new Slots(options.concurrency)
    this.#agent = createAgent(options)
  }

  /**
   * Makes one request and gives its answer to `read`, once: nothing is retried but a token that the store calls stale, which
   * is a refusal before anything was done.
   *
   * @throws GcsError; the signal's reason; what `read` throws
   */
  async send<T>(request: ApiRequest, read: (answer: ApiAnswer) => Promise<T>): Promise<T> {
    const sentBytes = typeof request.body === 'object' ? request.body.sizeBytes : 0
    const leave = await this.#slots.enter(Math.max(sentBytes, request.answerBytes ?? 0), request)
    const answered = this.#slots.hand(sentBytes)
    try {
      const first = await this.#attempt(request, read)
      if (!('stale' in first)) return first.value
      const second = await this.#attempt(request, read)
      if ('stale' in second) throw second.stale
      return second.value
    } finally {
      answered()
      leave()
    }
  }

  /** Closes idle connections. */
  close(): void {
    this.#agent?.destroy()
  }

  async #attempt<T>(
    request: ApiRequest,
    read: (answer: ApiAnswer) => Promise<T>,
  ): Promise<{ value: T } | { stale: GcsError }> {
    const { op, signal, url } = request
    const client = await this.#credentials.ready(signal, url)
    const attempt = new Attempt(signal, {
      idleTimeoutMs: this.#idleTimeoutMs,
      drainMs: () => (request.body === undefined ? 0 : this.#slots.drainMs),
      silence: (silentMs) => silenceError(op, silentMs),
      clock: this.#clock,
    })
    let answerBody: Readable | undefined
    const body = openBody(request, attempt)
    try {
      const response = await this.#transfer(client, request, body, attempt)
      answerBody = response.data as Readable
      const { status } = response
      const headers = response.headers as ApiAnswer['headers']
      attempt.moved()
      const encoding = addedEncoding(headers)
      const stream = encoding === undefined ? answerBody : decoderOf(encoding, answerBody, op)
      const chunks = (): AsyncGenerator<Buffer> => watchedChunks(stream, attempt)
      if ((status >= 200 && status < 300) || request.expected?.includes(status) === true) {
        return { value: await read({ status, headers, chunks, text: () => textOf(chunks()) }) }
      }
      const failure = answerError(op, status, headers, await textOf(chunks(), SHOWN_ERROR_BYTES))
      if (status !== 401) throw failure
      this.#credentials.refused(client)
      return { stale: failure }
    } catch (error) {
      const reason = attempt.explain(error)
      // Whatever is not known by then came out of the transport.
      throw signal.aborted || isOurs(reason) ? reason : networkError(op, reason)
    } finally {
      attempt.stop()
      body?.destroy()
      // Read to its end it is a connection to use again; else it ends here.
      if (answerBody?.readableEnded === false) answerBody.destroy()
    }
  }

  async #transfer(client: AuthClient, request: ApiRequest, body: Readable | undefined, attempt: Attempt) {
    const length = request.body === undefined || typeof request.body === 'string' ? undefined : request.body.sizeBytes
    const options = {
      url: request.url,
      method: request.method,
      headers: {
        'User-Agent': USER_AGENT,
        ...request.headers,
        ...(length === undefined ? {} : { 'Content-Length': String(length) }),
      },
      data: body ?? request.body,
      responseType: 'stream',
      signal: attempt.signal,
      validateStatus: () => true,
      retry: false,
      ...(this.#agent === undefined ? {} : { agent: this.#agent }),
      // The part of a fetch that is used when the answer is wanted as a stream.
      fetchImplementation: transfer as unknown as FetchImplementation,
    } as const
    return await client.request<unknown>(options)
  }
}

type FetchImplementation = NonNullable<Parameters<AuthClient['request']>[0]['fetchImplementation']>

const USER_AGENT = 'nexus-objectstore-gcs'
const SHOWN_ERROR_BYTES = 64 * 1024
/** Below the time after which the vendor's front ends and load balancers drop an idle connection. */
const IDLE_CONNECTION_MS = 20_000

/** Undefined behind a proxy: the SDK makes the agent for it. */
function createAgent({ apiUrl, concurrency }: GcsOptions): HttpAgent | undefined {
  const proxies = ['HTTPS_PROXY', 'https_proxy', 'HTTP_PROXY', 'http_proxy']
  if (proxies.some((name) => (process.env[name] ?? '') !== '')) return undefined
  const options = { keepAlive: true, maxSockets: concurrency, maxFreeSockets: concurrency, timeout: IDLE_CONNECTION_MS }
  return apiUrl.startsWith('https:') ? new HttpsAgent(options) : new HttpAgent(options)
}

/** Errors that already say what they are: ours, those of the caller's disk, and bugs. */
function isOurs(error: unknown): boolean {
  if (error instanceof GcsError || isNexusError(error)) return true
  // The SDK's errors carry their request.
  if (!(error instanceof Error) || 'config' in error) return false
  if ('path' in error && typeof error.path === 'string') return true
  return (error instanceof TypeError || error instanceof RangeError) && !('code' in error)
}

/**
 * An encoding that the store did not put on: a proxy's. An object may be stored encoded, and comes so; without the store's word
 * of that, a length that is the object's own says the same.
 */
function addedEncoding(headers: ApiAnswer['headers']): string | undefined {
  const encoding = encodingOf(headers['content-encoding'])
  const stored = encodingOf(headers['x-goog-stored-content-encoding'])
  const length = headers['content-length']
  const isStoredLength = length !== undefined && length === headers['x-goog-stored-content-length']
  return encoding === stored || isStoredLength ? undefined : encoding
}

function openBody(request: ApiRequest, attempt: Attempt): Readable | undefined {
  const { body, onSent } = request
  if (body === undefined || typeof body === 'string') return undefined
  const stream = body.open((bytes) => {
    attempt.moved()
    onSent?.(bytes)
  })
  // A pipe does not pass on the failure of its source.
  stream.once('error', (error) => attempt.fail(error))
  return stream
}

async function* watchedChunks(stream: Readable, attempt: Attempt): AsyncGenerator<Buffer> {
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    attempt.moved()
    yield chunk
    // Time the reader takes is not silence of the store.
    attempt.moved()
  }
}

async function textOf(chunks: AsyncIterable<Buffer>, limitBytes = Number.POSITIVE_INFINITY): Promise<string> {
  const parts: Buffer[] = []
  let sizeBytes = 0
  for await (const chunk of chunks) {
    parts.push(chunk)
    sizeBytes += chunk.length
    if (sizeBytes > limitBytes) break
  }
  return Buffer.concat(parts).toString()
}
