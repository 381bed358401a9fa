import { randomBytes } from 'node:crypto'
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http'
import { FaultPlan } from '../faults/index.ts'
import {
  delayOf,
  isLostAnswer,
  isSilent,
  type LoopbackServerOptions,
  loseConnection,
  openLoopbackServer,
  sendBody,
  statusOf,
  stayInSilence,
} from '../http/index.ts'
import { type Address, addressOf } from './address.ts'
import { BodyStore } from './body-store.ts'
import { type Bucket, type OpenUpload, sortedKeys } from './bucket.ts'
import type { Answer, Exchange } from './exchange.ts'
import { operations } from './operations.ts'
import type { S3Quirks } from './quirks.ts'
import { errorDocument, Refusal } from './refusal.ts'
import { type KnownCredentials, verifySignature } from './signature.ts'

/** One request that arrived, for tests to look at. */
export interface SeenRequest {
  operation: string
  bucket: string
  key: string
  query: URLSearchParams
  headers: IncomingHttpHeaders
}

export interface S3EmulatorOptions extends LoopbackServerOptions {
  /** What buckets are in unless they are made with another; default `us-east-1`. */
  region?: string
}

/** Keys that every emulator knows from the start. */
export const EMULATOR_CREDENTIALS = { accessKeyId: 'emulator-key', secretAccessKey: 'emulator-secret' } as const

/**
 * An S3 store in this process: signatures are verified, bodies lie on disk, and what goes wrong is planned.
 *
 * @see https://docs.aws.amazon.com/AmazonS3/latest/API/API_Operations_Amazon_Simple_Storage_Service.html
 */
export class S3Emulator {
  readonly faults: FaultPlan = new FaultPlan()
  readonly quirks: S3Quirks = {}
  /** The keys that are known now, by their id. */
  readonly credentials: Map<string, KnownCredentials> = new Map([
    [EMULATOR_CREDENTIALS.accessKeyId, { ...EMULATOR_CREDENTIALS }],
  ])
  /** Every request since the start, or since the test emptied it. */
  readonly requests: SeenRequest[] = []
  readonly #buckets = new Map<string, Bucket>()
  readonly #bodies = new BodyStore()
  readonly #region: string
  #url = ''
  #closeServer: () => Promise<void> = async () => undefined

  constructor(region: string) {
    this.#region = region
  }

  /** `http://127.0.0.1:PORT`. */
  get url(): string {
    return this.#url
  }

  async listen(options: LoopbackServerOptions): Promise<void> {
    const server = await openLoopbackServer((request, response) => this.#handle(request, response), options)
    this.#url = server.url
    this.#closeServer = () => server.close()
  }

  createBucket(name: string, region: string = this.#region): void {
    this.#buckets.set(name, { region, objects: new Map(), uploads: new Map(), shown: undefined })
  }

  deleteBucket(name: string): void {
    this.#buckets.delete(name)
  }

  /** The keys of a bucket, in the order of listings. */
  keys(bucket: string): string[] {
    return sortedKeys(this.#bucket(bucket).objects.keys())
  }

  /** The whole content of an object; undefined where there is none. */
  async read(bucket: string, key: string): Promise<Buffer | undefined> {
    const object = this.#bucket(bucket).objects.get(key)
    if (object === undefined) return undefined
    const chunks: Buffer[] = []
    for await (const chunk of this.#bodies.read(object.extents, 0, object.sizeBytes)) chunks.push(chunk)
    return Buffer.concat(chunks)
  }

  /** Size and headers of an object, without its content. */
  stat(bucket: string, key: string): { sizeBytes: number; etag: string; headers: Record<string, string> } | undefined {
    return this.#bucket(bucket).objects.get(key)
  }

  /** Puts an object into a bucket behind every client's back, whatever its key. */
  async plant(bucket: string, key: string, content: Uint8Array | string): Promise<void> {
    const bytes = Buffer.from(content)
    const extent = await this.#bodies.write(once(bytes), () => undefined)
    const object = { extents: [extent], sizeBytes: bytes.length, etag: '"planted"', modified: new Date(), headers: {} }
    this.#bucket(bucket).objects.set(key, object)
  }

  /** Multipart uploads that are neither completed nor aborted. */
  openUploads(bucket: string): OpenUpload[] {
    return [...this.#bucket(bucket).uploads.values()]
  }

  /** Listings show what is there now until the returned function is called. */
  freezeListings(bucket: string): () => void {
    const state = this.#bucket(bucket)
    state.shown = new Map(state.objects)
    return () => void (state.shown = undefined)
  }

  async close(): Promise<void> {
    try {
      await this.#closeServer()
    } finally {
      this.#bodies.remove()
    }
  }

  #bucket(name: string): Bucket {
    const bucket = this.#buckets.get(name)
    if (bucket !== undefined) return bucket
    throw new Refusal(404, 'NoSuchBucket', 'The specified bucket does not exist', { fields: { BucketName: name } })
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const requestId = randomBytes(8).toString('hex').toUpperCase()
    response.setHeader('x-amz-request-id', requestId)
    response.setHeader('server', 'NexusS3Emulator')
    // That of node:http is kept for a second, and clients set their clocks by it.
    response.setHeader('date', new Date().toUTCString())
    let lost = false
    let answer: Answer
    let faults: Exchange['faults'] = []
    try {
      const address = addressOf(request)
      this.requests.push({ ...address, headers: request.headers })
      faults = this.faults.take(address)
      await delayOf(faults)
      if (isSilent(faults)) await stayInSilence(request)
      const refused = statusOf(faults)
      if (refused !== undefined) {
        throw new Refusal(refused.status, refused.code, 'A planned refusal.', { headers: refused.headers ?? {} })
      }
      answer = await this.#answer(request, address, faults)
      lost = isLostAnswer(faults)
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      const body = request.method === 'HEAD' ? '' : errorDocument(error, request.url ?? '', requestId)
      answer = { status: error.status, headers: error.headers, body }
    }
    if (lost) loseConnection(request)
    await send(request, response, answer, faults)
  }

  async #answer(request: IncomingMessage, address: Address, faults: Exchange['faults']): Promise<Answer> {
    const { operation, bucket } = address
    const region = verifySignature(request, address, this.credentials, Date.now())
    if (this.quirks.rejectsChecksums === true && Object.keys(request.headers).some(isChecksumHeader)) {
      throw new Refusal(501, 'NotImplemented', 'A header you provided implies functionality that is not implemented.')
    }
    if (operation === 'CreateBucket') {
      if (this.#buckets.has(bucket)) throw new Refusal(409, 'BucketAlreadyOwnedByYou', 'You already own it.')
      this.createBucket(bucket)
      return { status: 200, headers: { location: `/${bucket}` } }
    }
    const bucketState = this.#bucket(bucket)
    if (region !== bucketState.region) throw elsewhere(bucketState.region)
    const operate = operations[operation]
    if (operate === undefined) throw new Refusal(501, 'NotImplemented', `The emulator has no ${operation}.`)
    const { quirks } = this
    return await operate({ ...address, request, faults, quirks, bodies: this.#bodies, bucketState })
  }
}

/** Serves an emulator on a free port of 127.0.0.1. */
export async function openS3Emulator({ region = 'us-east-1', ...server }: S3EmulatorOptions = {}): Promise<S3Emulator> {
  const emulator = new S3Emulator(region)
  await emulator.listen(server)
  return emulator
}

function elsewhere(region: string): Refusal {
  const message = 'The bucket you are attempting to access must be addressed using the specified endpoint.'
  return new Refusal(301, 'PermanentRedirect', message, { headers: { 'x-amz-bucket-region': region } })
}

function isChecksumHeader(name: string): boolean {
  return name.startsWith('x-amz-checksum-') || name === 'x-amz-trailer' || name === 'x-amz-sdk-checksum-algorithm'
}

async function* once(bytes: Buffer): AsyncGenerator<Buffer> {
  yield bytes
}

async function send(
  request: IncomingMessage,
  response: ServerResponse,
  { status, headers = {}, body }: Answer,
  faults: Exchange['faults'],
): Promise<void> {
  if (typeof body === 'object') {
    const type = headers['content-type'] ?? 'application/octet-stream'
    await sendBody(request, response, { status, headers: { ...headers, 'content-type': type }, ...body }, faults)
    return
  }
  const bytes = Buffer.from(body ?? '')
  const typed = bytes.length === 0 ? headers : { ...headers, 'content-type': 'application/xml' }
  const length = request.method === 'HEAD' || status === 204 ? {} : { 'content-length': bytes.length }
  response.writeHead(status, { ...typed, ...length })
  response.end(bytes)
}
