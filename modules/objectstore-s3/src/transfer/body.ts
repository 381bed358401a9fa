import type { Readable } from 'node:stream'
import { crc32 } from 'node:zlib'
import type { S3Client } from '@aws-sdk/client-s3'
import type { Connection, RequestContext } from '../client/connection.ts'
import { withRetries } from '../client/retry.ts'
import type { SourceFile } from './local-source.ts'

/** Bodies up to this are sent from memory, where the SDK can send them again; larger ones as a new stream each time. */
export const BUFFERED_BYTES: number = 8 * 1024 * 1024

/** A part of a local file, to be the body of one request. */
export interface Piece {
  file: SourceFile
  offset: number
  length: number
}

/** What a request carries of its piece. */
export interface BodyFields {
  Body: Buffer | Readable
  ContentLength: number
  /** Of a stream; the SDK adds that of a buffer itself. */
  ChecksumCRC32?: string
}

/** How one piece is sent. */
export interface BodyRequest<T> extends RequestContext {
  request: (client: S3Client, body: BodyFields, options: { abortSignal?: AbortSignal }) => Promise<T>
  /** Called with the bytes handed to the socket so far; starts again from 0 when a stream is sent again. */
  onSent?: (bytes: number) => void
}

/** Sends a small piece from memory, within the memory that all requests share. */
export async function sendBuffered<T>(connection: Connection, piece: Piece, each: BodyRequest<T>): Promise<T> {
  const leave = await connection.memory.enter(piece.length, each.signal)
  try {
    const buffer = Buffer.allocUnsafe(piece.length)
    await piece.file.fill(buffer, piece.offset)
    return await sendBuffer(connection, buffer, each)
  } finally {
    leave()
  }
}

/** Sends bytes that are in memory. */
export function sendBuffer<T>(connection: Connection, buffer: Buffer, each: BodyRequest<T>): Promise<T> {
  const body = { Body: buffer, ContentLength: buffer.length }
  return connection.send(each, (client, options) => each.request(client, body, options))
}

/**
 * Sends a piece as a stream, a new one for each attempt: the SDK would send what is left of the first, which ends in a request
 * that waits for ever for the rest of its body. The checksum goes ahead as a header, because stores refuse trailers.
 */
export async function sendStreamed<T>(connection: Connection, piece: Piece, each: BodyRequest<T>): Promise<T> {
  const { signal } = each
  const sums = connection.options.checksums !== 'when_required'
  const attempts = each.once === true ? 1 : connection.options.maxAttempts
  const checksum = sums ? { ChecksumCRC32: await checksumOf(piece, signal) } : {}
  return withRetries({ attempts, signal }, async () => {
    const stream = piece.file.stream(piece.offset, piece.length)
    // A refusal may come while the body is still on its way: its connection must not be used again.
    const attempt = new AbortController()
    const own = signal === undefined ? attempt.signal : AbortSignal.any([signal, attempt.signal])
    let sent = 0
    stream.on('data', (chunk) => each.onSent?.((sent += chunk.length)))
    // The SDK's pipe is what consumes it.
    stream.pause()
    let localFailure: Error | undefined
    stream.once('error', (error) => {
      localFailure = error
      attempt.abort(error)
    })
    try {
      const body = { Body: stream, ContentLength: piece.length, ...checksum }
      return await connection.send({ ...each, once: true, signal: own }, (client, options) =>
        each.request(client, body, options),
      )
    } catch (error) {
      throw localFailure ?? error
    } finally {
      stream.destroy()
      attempt.abort()
    }
  })
}

async function checksumOf({ file, offset, length }: Piece, signal: AbortSignal | undefined): Promise<string> {
  let sum = 0
  const buffer = Buffer.allocUnsafe(Math.min(length, 1024 * 1024))
  for (let at = 0; at < length; at += buffer.length) {
    signal?.throwIfAborted()
    const chunk = buffer.subarray(0, Math.min(buffer.length, length - at))
    await file.fill(chunk, offset + at)
    sum = crc32(chunk, sum)
  }
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(sum)
  return bytes.toString('base64')
}
