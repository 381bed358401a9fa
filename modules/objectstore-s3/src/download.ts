import { closeSync, constants, openSync, write, writeSync } from 'node:fs'
import type { Readable } from 'node:stream'
import { promisify } from 'node:util'
import { GetObjectCommand, type GetObjectCommandOutput, HeadObjectCommand } from '@aws-sdk/client-s3'
import {
  type ByteRange,
  decoderOf,
  encodingOf,
  NexusError,
  ObjectNotFoundError,
  quoteKey,
  rangeHeader,
  type TransferProgress,
  type Waiter,
} from '@nexus/objectstore'
import type { Connection, RequestContext } from './client/connection.ts'
import { S3RequestError, toRequestError, unexpectedAnswer } from './errors.ts'
import { fullKeyOf } from './keys.ts'

const writeTo = promisify(write)

/** Written in one synchronous step: cheaper than a turn of the thread pool. */
const SYNC_BYTES = 64 * 1024
/** Sessions hold prompts and secrets. The umask takes more. */
const LOCAL_MODE = 0o600
const CREATE = constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC | constants.O_NOFOLLOW

/** One download. */
export interface DownloadOrder extends Waiter {
  /** Store-relative. */
  key: string
  /** Written anew; nothing is at it, or a part of an earlier attempt. */
  tempPath: string
  range?: ByteRange
  /** What the listing said. Another size is believed only when the store, asked again, says so too. */
  listedBytes?: number
  progress: Pick<TransferProgress, 'begin' | 'moved'>
}

/**
 * Writes an object, or a range of it, to a file. A body that ends early, stalls or fails its checksum is fetched again.
 *
 * @returns the bytes that the store declared, all of which have arrived
 * @throws ObjectNotFoundError when the store says that this key is free: a missing bucket, a refusal or an outage is not that
 */
export async function downloadObject(connection: Connection, order: DownloadOrder): Promise<number> {
  const sizeBytes = order.listedBytes ?? order.range?.length ?? 0
  return connection.repeat(order, sizeBytes, () => downloadOnce(connection, order))
}

async function downloadOnce(connection: Connection, order: DownloadOrder): Promise<number> {
  const { key, tempPath, range = {}, signal } = order
  const { bucket, prefix } = connection.options
  const fullKey = fullKeyOf(prefix, key)
  const wanted = rangeHeader(range)
  const target = { Bucket: bucket, Key: fullKey }
  const context = { operation: 'GetObject', key: fullKey, signal }
  const input = { ...target, ...(wanted === undefined ? {} : { Range: wanted }) }
  let answer: GetObjectCommandOutput
  try {
    answer = await connection.sendOnce(context, (client, each) => client.send(new GetObjectCommand(input), each))
  } catch (error) {
    if (!(error instanceof S3RequestError)) throw error
    if (error.serviceCode === 'NoSuchKey') throw new ObjectNotFoundError(key, { cause: error })
    // The object is there, and ends before the range does.
    if (wanted === undefined || (error.serviceCode !== 'InvalidRange' && error.status !== 416)) throw error
    return writeNothing(tempPath)
  }
  const body = answer.Body as Readable
  try {
    if (answer.ETag === undefined) throw unexpectedAnswer('GetObject', fullKey, 'ETag')
    const partBytes = checkRange(answer, range, wanted, fullKey)
    if (range.length === 0) return writeNothing(tempPath)
    const encoding = encodingOf(answer.ContentEncoding)
    const declared = encoding === undefined ? answer.ContentLength : undefined
    const expected = partBytes ?? declared ?? (await headBytes(connection, context, target))
    // An object may have been stored encoded, by whatever program: then its own length is the one that is sent.
    const encoded = encoding !== undefined && answer.ContentLength !== expected
    order.progress.begin()
    const source = encoded ? decoderOf(encoding, body, key) : body
    const arrived = await writeBody(source, tempPath, signal, (bytes) => order.progress.moved(bytes))
    if (expected !== undefined && arrived !== expected) throw cut(arrived, expected, encoding)
    if (order.listedBytes !== undefined && arrived !== order.listedBytes) {
      const stored = await headBytes(connection, context, target)
      if (stored !== undefined && stored !== arrived) throw cut(arrived, stored, encoding)
    }
    return arrived
  } catch (error) {
    signal?.throwIfAborted()
    throw error instanceof BrokenBody ? bodyFailure(error, fullKey) : error
  } finally {
    body.destroy()
  }
}

/** What the store says the object has. Undefined where something on the way leaves that out. */
async function headBytes(
  connection: Connection,
  context: RequestContext,
  target: { Bucket: string; Key: string },
): Promise<number | undefined> {
  const head = await connection.sendOnce({ ...context, operation: 'HeadObject' }, (client, each) =>
    client.send(new HeadObjectCommand(target), each),
  )
  if (head.ETag === undefined) throw unexpectedAnswer('HeadObject', target.Key, 'ETag')
  return head.ContentLength
}

/**
 * Demands that the answer is the range that was asked for, or the whole where none was.
 *
 * @returns the bytes of the range; undefined for the whole
 */
function checkRange(
  { ContentRange: given }: GetObjectCommandOutput,
  { offset = 0, length = Infinity }: ByteRange,
  wanted: string | undefined,
  fullKey: string,
): number | undefined {
  if (wanted === undefined && given === undefined) return undefined
  const [, from, to, total = '*'] = /^bytes (\d+)-(\d+)\/(\d+|\*)$/.exec(given ?? '') ?? []
  const first = Number(from)
  const last = Number(to)
  const end = Math.min(offset + Math.max(length, 1), total === '*' ? Infinity : Number(total)) - 1
  if (wanted !== undefined && first === offset && (last === end || (end === Infinity && last >= first))) {
    return last - first + 1
  }
  const problem =
    given === undefined
      ? `ignores the range that is asked of ${quoteKey(fullKey)}`
      : `answers with ${JSON.stringify(given)} of ${quoteKey(fullKey)} to a request for ${wanted ?? 'the whole'}`
  throw new NexusError('UNSUPPORTED', `the store, or a cache before it, ${problem}`, { op: 'objectstore.get' })
}

function writeNothing(path: string): number {
  closeSync(openSync(path, CREATE, LOCAL_MODE))
  return 0
}

/** An abort ends a body that has gone silent, too: the SDK destroys its request. */
async function writeBody(
  body: Readable,
  path: string,
  signal: AbortSignal | undefined,
  onBytes: (bytes: number) => void,
): Promise<number> {
  const fd = openSync(path, CREATE, LOCAL_MODE)
  let arrived = 0
  try {
    for await (const chunk of chunksOf(body)) {
      signal?.throwIfAborted()
      for (let at = 0; at < chunk.length;) {
        at +=
          chunk.length <= SYNC_BYTES
            ? writeSync(fd, chunk, at)
            : (await writeTo(fd, chunk, at, chunk.length - at, null)).bytesWritten
      }
      arrived += chunk.length
      onBytes(chunk.length)
    }
  } finally {
    closeSync(fd)
  }
  signal?.throwIfAborted()
  return arrived
}

/** The failure of a body, told apart from one of the local disk that it is written to. */
class BrokenBody extends Error {}

async function* chunksOf(body: Readable): AsyncGenerator<Buffer> {
  try {
    yield* body as AsyncIterable<Buffer>
  } catch (error) {
    throw new BrokenBody('the body broke off', { cause: error })
  }
}

function cut(arrived: number, expected: number, encoding?: string): BrokenBody {
  const how = encoding === undefined ? '' : `; it came with Content-Encoding: ${encoding}, by a proxy on the way`
  return new BrokenBody(`the body ended after ${arrived} bytes of ${expected}${how}`)
}

/** What broke a body: the connection, a checksum that its bytes don't match, or an encoding that ends early. */
function bodyFailure(error: BrokenBody, fullKey: string): unknown {
  const failure = toRequestError(error.cause, 'GetObject', fullKey)
  if (failure instanceof S3RequestError) return failure
  const cause = error.cause instanceof Error ? error.cause : error
  return new S3RequestError('GetObject', fullKey, Object.assign(cause, { name: 'BrokenBody' }))
}
