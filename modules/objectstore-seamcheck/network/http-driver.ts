import { createWriteStream, readFileSync } from 'node:fs'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { ReadableStream } from 'node:stream/web'
import {
  configError,
  ContentEncodingError,
  counting,
  Gate,
  hideSecrets,
  hydrateObjects,
  integerOption,
  isFolderPlaceholder,
  joinKey,
  listingPrefix,
  monotonicProgress,
  NexusError,
  openSnapshot,
  parseEndpoint,
  parseOptions,
  parseRetryAfter,
  rangeHeader,
  replaceFile,
  retrying,
  trimKeyPrefix,
  validateKey,
  validateKeyPrefix,
  type Backend,
  type ByteRange,
  type Download,
  type ErrorClass,
  type ObjectInfo,
  type ObjectStoreConfig,
  type OpOptions,
  type TransferProgress,
} from '@nexus/objectstore'

/** An answer that is no success. It holds nothing of the request: errors are printed, and requests carry credentials. */
class AnswerError extends Error {
  override readonly name = 'AnswerError'
  readonly status: number
  /** What the store calls it. */
  readonly reason: string
  readonly retryAfterMs: number | undefined

  constructor({ status, headers }: Response, text: string) {
    super(`HTTP ${status}: ${text}`)
    this.status = status
    this.reason = text
    this.retryAfterMs = parseRetryAfter(headers.get('retry-after'), Date.now())
  }
}

function classify(error: unknown): ErrorClass | undefined {
  if (!(error instanceof AnswerError)) return undefined
  if (error.status === 401 || error.status === 403) return 'permission'
  // The store says of what there is none: without a bucket nothing is known of the object.
  if (error.status === 404) return error.reason === 'NoSuchObject' ? 'not-found' : 'permanent'
  if (error.status === 429 || error.status === 503) return 'throttled'
  return error.status >= 500 ? 'temporary' : 'permanent'
}

/** Of calls that are safe to repeat: what isn't explained is a broken connection. */
const passes = (error: unknown): ErrorClass | undefined =>
  error instanceof TypeError && error.cause !== undefined ? 'temporary' : classify(error)

interface Sent {
  method?: string
  headers?: Record<string, string>
  body?: ReadableStream
  duplex?: 'half'
}

/** A store that is spoken to in plain HTTP: an object is at `<endpoint>/<bucket>/<prefix>/<key>`. */
export function openHttpBackend(config: ObjectStoreConfig): Backend {
  const { bucket, prefix } = config
  const endpoint = parseEndpoint(config.endpoint)
  if (endpoint === undefined) throw configError('endpoint', 'is required: the URL of the store')
  const { concurrency = 16, max_attempts: attempts = 5 } = parseOptions('http', config.options, {
    concurrency: integerOption({ min: 1 }),
    max_attempts: integerOption({ min: 1 }),
  })
  const token = readFileSync(config.credentialsFile, 'utf8').trim()
  hideSecrets(token)
  const gate = new Gate(concurrency)
  const urlOf = (key: string): URL => new URL([bucket, ...key.split('/')].map(encodeURIComponent).join('/'), endpoint)
  const objectUrl = (key: string): URL => urlOf(joinKey(prefix, key))

  async function send(url: URL, init: Sent, signal?: AbortSignal): Promise<Response> {
    const headers = { authorization: `Bearer ${token}`, 'accept-encoding': 'identity', ...init.headers }
    const response = await fetch(url, { ...init, headers, ...(signal === undefined ? {} : { signal }) })
    if (!response.ok) throw new AnswerError(response, (await response.text()).slice(0, 200))
    return response
  }

  /** In a slot: waiting for it is told, so that it counts against no limit. The pauses between attempts hold none. */
  function repeated<T>({ signal, onWait }: OpOptions, run: () => Promise<T>): Promise<T> {
    return retrying(passes, run, signal, { attempts, gate, onWait })
  }

  async function upload(key: string, path: string, options: OpOptions, headers: Record<string, string>): Promise<void> {
    const snapshot = await openSnapshot(path)
    const progress = monotonicProgress(options.onProgress)
    const put = async (): Promise<void> => {
      progress.begin()
      const body = Readable.toWeb(snapshot.stream().pipe(counting(progress)))
      await send(objectUrl(key), { method: 'PUT', body, duplex: 'half', headers }, options.signal)
    }
    try {
      if (headers['if-none-match'] === undefined) await repeated(options, put)
      else await put()
      progress.finished(snapshot.size)
    } finally {
      await snapshot.close()
    }
  }

  async function download(key: string, path: string, range: ByteRange, options: OpOptions, progress: TransferProgress) {
    return repeated(options, async () => {
      progress.begin()
      const header = rangeHeader(range)
      const init = header === undefined ? {} : { headers: { range: header } }
      const response = await send(objectUrl(key), init, options.signal).catch((error: unknown) => {
        // The range lies behind the end: the object is there, and the file is empty.
        if (error instanceof AnswerError && error.status === 416) return new Response(null)
        throw error
      })
      const encoding = response.headers.get('content-encoding')
      if (encoding !== null) throw new ContentEncodingError(key, encoding)
      const length = range.length === 0 ? 0 : Number(response.headers.get('content-length') ?? 0)
      const body = length === 0 ? [] : Readable.fromWeb(response.body as ReadableStream)
      await pipeline(body, counting(progress), createWriteStream(path, { mode: 0o600 }))
      return length
    })
  }

  async function pages<Page>(
    query: Record<string, string>,
    options: OpOptions,
    take: (page: Page) => void,
  ): Promise<void> {
    for (let after: string | undefined = ''; after !== undefined;) {
      const url = urlOf('')
      url.search = new URLSearchParams({ ...query, after }).toString()
      const answer = await repeated(options, async () => (await send(url, {}, options.signal)).json())
      const { next, ...page } = answer as Page & { next?: string }
      take(page as Page)
      after = next
    }
  }

  async function list(keyPrefix: string, options: OpOptions = {}): Promise<ObjectInfo[]> {
    validateKeyPrefix(keyPrefix)
    const found: ObjectInfo[] = []
    await pages<{ objects: ObjectInfo[] }>({ prefix: listingPrefix(prefix, keyPrefix) }, options, ({ objects }) => {
      for (const { key: raw, size } of objects) {
        const key = trimKeyPrefix(raw, prefix)
        if (key !== undefined && !isFolderPlaceholder(key, size)) found.push({ key, size })
      }
      options.onProgress?.({ objects: found.length, bytes: 0 })
    })
    return found
  }

  return {
    list,
    classify,
    async listNames(keyPrefix, options = {}) {
      validateKeyPrefix(keyPrefix)
      const names: string[] = []
      const query = { prefix: listingPrefix(prefix, keyPrefix), delimiter: '/' }
      await pages<{ names: string[] }>(query, options, (page) => names.push(...page.names))
      return names
    },
    async hydrate(keyPrefix, destDir, options = {}) {
      const fetchOne: Download = ({ key }, path, each) => download(key, path, {}, each, each.progress)
      // The objects that a listing reports are none that have arrived.
      const { onProgress: _, ...quiet } = options
      await hydrateObjects(await list(keyPrefix, quiet), keyPrefix, destDir, fetchOne, { ...options, concurrency })
    },
    async get(key, localPath, options = {}) {
      validateKey(key)
      const progress = monotonicProgress(options.onProgress)
      progress.finished(await replaceFile(localPath, key, (path) => download(key, path, options, options, progress)))
    },
    async put(key, localPath, options = {}) {
      validateKey(key)
      await upload(key, localPath, options, {})
    },
    async putIfAbsent(key, localPath, options = {}) {
      validateKey(key)
      try {
        await upload(key, localPath, options, { 'if-none-match': '*' })
        return true
      } catch (error) {
        if (!(error instanceof AnswerError)) throw error
        if (error.status === 412) return false
        if (error.status < 500 || error.status === 503) throw error
        // A gateway that gave up says nothing of what became of the request.
        const message = `whether ${key} was created is not known`
        throw new NexusError('OUTCOME_UNKNOWN', message, { op: 'objectstore.putIfAbsent', key, cause: error })
      }
    },
    async delete(key, options = {}) {
      validateKey(key)
      await repeated(options, () => send(objectUrl(key), { method: 'DELETE' }, options.signal))
    },
    async flush({ signal } = {}) {
      signal?.throwIfAborted()
    },
  }
}
