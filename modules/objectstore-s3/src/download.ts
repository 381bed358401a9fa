import { closeSync, constants, openSync, write, writeSync } from 'node:fs'
import type { Readable } from 'node:stream'
import { promisify } from 'node:util'
import { GetObjectCommand, type GetObjectCommandOutput, HeadObjectCommand } from '@aws-sdk/client-s3'
import { type ByteRange, NexusError, ObjectNotFoundError, quoteKey } from '@nexus/objectstore'
import type { Connection } from './client/connection.ts'
import { S3RequestError, toRequestError, unexpectedAnswer } from './errors.ts'
import { fullKeyOf } from './keys.ts'
import { withRetries } from './client/retry.ts'

const writeTo = promisify(write)

/** Written in one synchronous step: cheaper than a turn of the thread pool. */
const SYNC_BYTES = 64 * 1024
/** Sessions hold prompts and secrets. The umask takes more. */
const LOCAL_MODE = 0o600
const CREATE = constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC | constants.O_NOFOLLOW

/** One download. */
export interface DownloadOrder {
  /** Store-relative. */
  key: string
  /** Written anew; nothing is at it, or a part of an earlier attempt. */
  tempPath: string
  range?: ByteRange
  /** What the listing said. Another size is believed only when the store, asked again, says so too. */
  listedBytes?: number
  signal?: AbortSignal | undefined
  /** Called with the bytes of the present attempt so far. */
  onBytes: (bytes: number) => void
}

/**
 * Writes an object, or a range of it, to a file. A body that ends early, stalls or fails its checksum is fetched again.
 *
 * @returns the bytes that the store declared, all of which have arrived
 * @throws ObjectNotFoundError when the store says that this key is free: a missing bucket, a refusal or an outage is not that
 */
export async function downloadObject(connection: Connection, order: DownloadOrder): Promise<number> {
  const { maxAttempts } = connection.options
  const leave = await connection.slots.enter(1, order.signal)
  try {
    return await withRetries({ attempts: maxAttempts, signal: order.signal }, () => downloadOnce(connection, order))
  } finally {
    leave()
  }
}

async function downloadOnce(connection: Connection, order: DownloadOrder): Promise<number> {
  const { key, tempPath, range, signal, onBytes } = order
  const { options } = connection
  const fullKey = fullKeyOf(options.prefix, key)
  const wanted = rangeHeader(range)
  const input = { Bucket: options.bucket, Key: fullKey, ...(wanted === undefined ? {} : { Range: wanted }) }
  // Repeated above, from the beginning; the SDK would repeat each of those again.
  const context = { operation: 'GetObject', key: fullKey, signal, once: true }
  let answer: GetObjectCommandOutput
  try {
    answer = await connection.sendInside(context, (client, each) => client.send(new GetObjectCommand(input), each))
  } catch (error) {
    if (!(error instanceof S3RequestError)) throw error
    if (error.serviceCode === 'NoSuchKey') throw new ObjectNotFoundError(key, { cause: error })
    // The object is there, and ends before the range does.
    if (wanted !== undefined && (error.serviceCode === 'InvalidRange' || error.status === 416)) {
      closeSync(openSync(tempPath, CREATE, LOCAL_MODE))
      return 0
    }
    throw error
  }
  const body = answer.Body as Readable
  try {
    if (answer.ETag === undefined) throw unexpectedAnswer('GetObject', fullKey, 'ETag')
    if (wanted !== undefined && answer.ContentRange === undefined) {
      const message = `the store ignores the range that is asked of ${quoteKey(fullKey)}: it can't be used with packs`
      throw new NexusError('UNSUPPORTED', message, { op: 'objectstore.get', key })
    }
    if (range?.length === 0) {
      closeSync(openSync(tempPath, CREATE, LOCAL_MODE))
      return 0
    }
    const expected = answer.ContentLength
    const arrived = await writeBody(body, tempPath, signal, onBytes)
    if (expected !== undefined && arrived !== expected) throw cut(arrived, expected)
    if (order.listedBytes !== undefined && arrived !== order.listedBytes) {
      const { ContentLength: bytes = arrived } = await connection.sendInside(
        { ...context, operation: 'HeadObject' },
        (client, each) => client.send(new HeadObjectCommand(input), each),
      )
      if (bytes !== arrived) throw cut(arrived, bytes)
    }
    return arrived
  } catch (error) {
    signal?.throwIfAborted()
    throw bodyFailure(error, fullKey, tempPath)
  } finally {
    body.destroy()
  }
}

function rangeHeader({ offset = 0, length }: ByteRange = {}): string | undefined {
  if (length === undefined) return offset === 0 ? undefined : `bytes=${offset}-`
  // No range is empty, so one byte is asked for to learn whether the object is there.
  return `bytes=${offset}-${offset + Math.max(length, 1) - 1}`
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
    for await (const chunk of body as AsyncIterable<Buffer>) {
      signal?.throwIfAborted()
      for (let at = 0; at < chunk.length;) {
        at +=
          chunk.length <= SYNC_BYTES
            ? writeSync(fd, chunk, at)
            : (await writeTo(fd, chunk, at, chunk.length - at, null)).bytesWritten
      }
      arrived += chunk.length
      onBytes(arrived)
    }
  } finally {
    closeSync(fd)
  }
  signal?.throwIfAborted()
  return arrived
}

function cut(arrived: number, expected: number): Error {
  return Object.assign(new Error(`the body ended after ${arrived} bytes of ${expected}`), { code: 'ECONNABORTED' })
}

/** What broke a body: the connection, or bytes that don't match their checksum; the local disk's errors stay as they are. */
function bodyFailure(error: unknown, fullKey: string, path: string): unknown {
  if (!(error instanceof Error) || (error as NodeJS.ErrnoException).path === path) return error
  const isMismatch = error.message.startsWith('Checksum mismatch')
  const failure = isMismatch ? Object.assign(error, { name: 'BadDigest', $metadata: {} }) : error
  return toRequestError(failure, 'GetObject', fullKey)
}
