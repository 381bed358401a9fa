import { createHash } from 'node:crypto'
import { Readable } from 'node:stream'
import { crc32 } from 'node:zlib'
import type { S3Client } from '@aws-sdk/client-s3'
import type { Snapshot, TransferProgress } from '@nexus/objectstore'
import type { Connection, RequestContext } from '../client/connection.ts'
import { watchSilence } from '../client/silence.ts'
import { toRequestError } from '../errors.ts'

/** Read into memory whole: a stream costs more than that. */
const BUFFERED_BYTES = 256 * 1024

/** A part of a local file, to be the body of one request. */
export interface Piece {
  file: Snapshot
  offset: number
  length: number
}

/** What a request carries of its piece. */
export interface BodyFields {
  Body: Buffer | Readable
  ContentLength: number
  /** The checksum goes ahead as a header, because stores refuse trailers. */
  ChecksumCRC32?: string
  ContentMD5?: string
}

/** How one piece is sent. */
export interface BodyRequest<T> extends RequestContext {
  request: (client: S3Client, body: BodyFields, options: { abortSignal?: AbortSignal }) => Promise<T>
  /** Sent once only. */
  once?: boolean
  /** Told of the bytes that are handed to the socket. */
  progress: Pick<TransferProgress, 'begin' | 'moved'>
}

/**
 * Sends a piece, from its beginning at each attempt: of a stream the SDK would send what is left of the first one, which ends
 * in a request that waits for the rest of its body until it is cut off.
 */
export async function sendPiece<T>(connection: Connection, piece: Piece, each: BodyRequest<T>): Promise<T> {
  const checksum = await checksumOf(connection, piece, each.signal)
  const attempt = async (): Promise<T> => {
    const answered = connection.slots.hand(piece.length)
    try {
      each.progress.begin()
      return await sendOnce(connection, piece, each, checksum)
    } finally {
      answered()
    }
  }
  return connection.repeat(each, piece.length, attempt, each.once === true ? 1 : undefined)
}

async function sendOnce<T>(
  connection: Connection,
  { file, offset, length }: Piece,
  each: BodyRequest<T>,
  checksum: Partial<BodyFields>,
): Promise<T> {
  const body = length <= BUFFERED_BYTES ? await read(file, offset, length) : file.stream(offset, length)
  // A refusal may come while the body is still on its way: its connection must not be used again.
  const attempt = new AbortController()
  const signal = each.signal === undefined ? attempt.signal : AbortSignal.any([each.signal, attempt.signal])
  const watch = watchSilence(() => connection.options.idleTimeoutMs + connection.slots.drainMs, attempt)
  const moved = (bytes: number): void => {
    watch.moved()
    each.progress.moved(bytes)
  }
  let localFailure: Error | undefined
  if (body instanceof Readable) {
    body.on('data', (chunk: Buffer) => moved(chunk.length))
    // The SDK's pipe is what consumes it.
    body.pause()
    body.once('error', (error) => {
      localFailure = error
      attempt.abort(error)
    })
  }
  try {
    const send = (client: S3Client, options: { abortSignal?: AbortSignal }): Promise<T> =>
      each.request(client, { Body: body, ContentLength: length, ...checksum }, options)
    const answer = connection.sendOnce({ ...each, signal }, send, 'uploading')
    if (!(body instanceof Readable)) moved(length)
    return await answer
  } catch (error) {
    each.signal?.throwIfAborted()
    throw localFailure ?? toRequestError(error, each.operation, each.key)
  } finally {
    watch.stop()
    if (body instanceof Readable) {
      body.destroy()
      attempt.abort()
    }
  }
}

async function read(file: Snapshot, offset: number, length: number): Promise<Buffer> {
  const buffer = Buffer.allocUnsafe(length)
  await file.fill(buffer, offset)
  return buffer
}

/** What the store checks the piece against, computed before a byte is sent; empty where none is wanted. */
async function checksumOf(
  { options }: Connection,
  { file, offset, length }: Piece,
  signal: AbortSignal | undefined,
): Promise<Partial<BodyFields>> {
  if (options.checksums === 'when_required') return {}
  const md5 = options.checksums === 'content_md5' ? createHash('md5') : undefined
  let sum = 0
  const buffer = Buffer.allocUnsafe(Math.min(length, 1024 * 1024))
  for (let at = 0; at < length; at += buffer.length) {
    signal?.throwIfAborted()
    const chunk = buffer.subarray(0, Math.min(buffer.length, length - at))
    await file.fill(chunk, offset + at)
    if (md5 === undefined) sum = crc32(chunk, sum)
    else md5.update(chunk)
  }
  if (md5 !== undefined) return { ContentMD5: md5.digest('base64') }
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(sum)
  return { ChecksumCRC32: bytes.toString('base64') }
}
