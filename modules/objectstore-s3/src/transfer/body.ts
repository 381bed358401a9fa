import { createHash } from 'node:crypto'
import type { Readable } from 'node:stream'
import { crc32 } from 'node:zlib'
import type { S3Client } from '@aws-sdk/client-s3'
import type { Connection, RequestContext } from '../client/connection.ts'
import { withRetries } from '../client/retry.ts'
import type { LocalSource } from './local-source.ts'

/** Read into memory whole: a stream costs more than that. */
const BUFFERED_BYTES = 256 * 1024

/** A part of a local file, to be the body of one request. */
export interface Piece {
  file: LocalSource
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
  /** An attempt begins at the first byte. */
  onBegin: () => void
  /** Called as bytes are handed to the socket, with how many. */
  onSent: (bytes: number) => void
}

/**
 * Sends a piece, from its beginning at each attempt: of a stream the SDK would send what is left of the first one, which ends
 * in a request that waits for the rest of its body until it is cut off.
 */
export async function sendPiece<T>(connection: Connection, piece: Piece, each: BodyRequest<T>): Promise<T> {
  const { signal } = each
  const attempts = each.once === true ? 1 : connection.options.maxAttempts
  const checksum = await checksumOf(connection, piece, signal)
  const send = piece.length <= BUFFERED_BYTES ? sendBuffer : sendStream
  return withRetries({ attempts, signal }, async () => {
    const leave = await connection.slots.enter(piece.length, each)
    const done = connection.awaiting(piece.length)
    try {
      each.onBegin()
      return await send(connection, piece, each, checksum)
    } finally {
      done()
      leave()
    }
  })
}

async function sendBuffer<T>(
  connection: Connection,
  { file, offset, length }: Piece,
  each: BodyRequest<T>,
  checksum: Partial<BodyFields>,
): Promise<T> {
  const buffer = Buffer.allocUnsafe(length)
  await file.fill(buffer, offset)
  const body = { Body: buffer, ContentLength: length, ...checksum }
  return connection.sendInside({ ...each, once: true }, (client, options) => {
    const answer = each.request(client, body, options)
    each.onSent(length)
    return answer
  })
}

async function sendStream<T>(
  connection: Connection,
  { file, offset, length }: Piece,
  each: BodyRequest<T>,
  checksum: Partial<BodyFields>,
): Promise<T> {
  const stream = file.stream(offset, length)
  // A refusal may come while the body is still on its way: its connection must not be used again.
  const attempt = new AbortController()
  const own = each.signal === undefined ? attempt.signal : AbortSignal.any([each.signal, attempt.signal])
  stream.on('data', (chunk: Buffer) => each.onSent(chunk.length))
  // The SDK's pipe is what consumes it.
  stream.pause()
  let localFailure: Error | undefined
  stream.once('error', (error) => {
    localFailure = error
    attempt.abort(error)
  })
  try {
    const body = { Body: stream, ContentLength: length, ...checksum }
    return await connection.sendInside({ ...each, once: true, signal: own }, (client, options) =>
      each.request(client, body, options),
    )
  } catch (error) {
    throw localFailure ?? error
  } finally {
    stream.destroy()
    attempt.abort()
  }
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
