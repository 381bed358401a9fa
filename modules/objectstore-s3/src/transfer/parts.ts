import { createHash } from 'node:crypto'
import {
  AbortMultipartUploadCommand,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  HeadObjectCommand,
  UploadPartCommand,
} from '@aws-sdk/client-s3'
import { forEachBounded } from '@nexus/objectstore'
import { BUFFERED_BYTES, type BodyRequest, type Piece, sendBuffer, sendStreamed } from './body.ts'
import type { Connection } from '../client/connection.ts'
import { S3RequestError, unexpectedAnswer } from '../errors.ts'
import { fullKeyOf } from '../keys.ts'
import type { SourceFile } from './local-source.ts'
import { storedAs } from './stored-as.ts'
import type { UploadRecords } from './upload-records.ts'

/** The protocol's limits. */
const MAX_PARTS = 10_000
/** Parts of one file under way at once. With buffered parts this is also what the file takes of the memory. */
const PARTS_AT_ONCE = 4
const MIB = 1024 * 1024
/** How long a failed upload may take to be cleared away, in ms: its caller waits. */
const ABORT_MS = 5_000

/** The size of the parts: the least that is allowed, and more where 10,000 would not do. A whole number of MiB. */
export function partSizeFor(sizeBytes: number, leastBytes: number): number {
  return Math.max(leastBytes, Math.ceil(sizeBytes / MAX_PARTS / MIB) * MIB)
}

/** Uploads a file in parts. A failure aborts the upload at the store; the object is the old one or the whole new one. */
export async function uploadInParts(
  connection: Connection,
  records: UploadRecords,
  key: string,
  file: SourceFile,
  { signal, onBytes }: { signal?: AbortSignal | undefined; onBytes: (bytes: number) => void },
): Promise<void> {
  const { options } = connection
  const target = { Bucket: options.bucket, Key: fullKeyOf(options.prefix, key) }
  const context = { key: target.Key, signal }
  const { UploadId } = await connection.send({ ...context, operation: 'CreateMultipartUpload' }, (client, each) =>
    client.send(
      new CreateMultipartUploadCommand({
        ...target,
        ...storedAs(options),
        // The parts' checksums count for nothing unless they are announced here, which the SDK leaves to us.
        ...(options.checksums === 'when_required' ? {} : { ChecksumAlgorithm: 'CRC32' as const }),
      }),
      each,
    ),
  )
  if (UploadId === undefined) throw unexpectedAnswer('CreateMultipartUpload', target.Key, 'UploadId')
  const upload = { ...target, UploadId }
  const record = records.add(target.Key, UploadId)
  let settled = true
  try {
    const parts = await sendParts(connection, upload, file, { signal, onBytes })
    // Before this nothing is visible; whether a lost answer of it did happen, putting again decides.
    settled = false
    await complete(connection, upload, parts, signal)
    settled = true
  } catch (error) {
    settled = await abortUpload(connection, target.Key, UploadId)
    throw error
  } finally {
    if (settled && record !== undefined) records.remove(record)
  }
}

async function complete(
  connection: Connection,
  upload: { Bucket: string; Key: string; UploadId: string },
  parts: CompletedParts,
  signal: AbortSignal | undefined,
): Promise<void> {
  const context = { key: upload.Key, signal }
  try {
    const { ETag } = await connection.send({ ...context, operation: 'CompleteMultipartUpload' }, (client, each) =>
      client.send(new CompleteMultipartUploadCommand({ ...upload, MultipartUpload: { Parts: parts } }), each),
    )
    if (ETag === undefined) throw unexpectedAnswer('CompleteMultipartUpload', upload.Key, 'ETag')
  } catch (error) {
    // What a repeat hears when the first one was done and its answer lost.
    const expected = etagOf(parts)
    if (!(error instanceof S3RequestError && error.serviceCode === 'NoSuchUpload') || expected === undefined)
      throw error
    const { Bucket, Key } = upload
    const { ETag } = await connection.send({ ...context, operation: 'HeadObject' }, (client, each) =>
      client.send(new HeadObjectCommand({ Bucket, Key }), each),
    )
    if (ETag?.replaceAll('"', '') !== expected) throw error
  }
}

/** The tag that an object of these parts has where tags are digests; undefined where those of the parts are none. */
function etagOf(parts: CompletedParts): string | undefined {
  const digests = parts.map(({ ETag }) => ETag.replaceAll('"', ''))
  if (digests.some((digest) => !/^[0-9a-f]{32}$/.test(digest))) return undefined
  const joined = Buffer.from(digests.join(''), 'hex')
  return `${createHash('md5').update(joined).digest('hex')}-${parts.length}`
}

type CompletedParts = { PartNumber: number; ETag: string; ChecksumCRC32?: string }[]

async function sendParts(
  connection: Connection,
  upload: { Bucket: string; Key: string; UploadId: string },
  file: SourceFile,
  { signal, onBytes }: { signal?: AbortSignal | undefined; onBytes: (bytes: number) => void },
): Promise<CompletedParts> {
  const partBytes = partSizeFor(file.sizeBytes, connection.options.partSizeBytes)
  const count = Math.ceil(file.sizeBytes / partBytes)
  const parts: CompletedParts = Array.from({ length: count })
  let done = 0
  const sendPart = async (index: number, buffer: Buffer | undefined, own: AbortSignal): Promise<void> => {
    const offset = index * partBytes
    const piece = { file, offset, length: Math.min(partBytes, file.sizeBytes - offset) }
    const each: BodyRequest<{ ETag?: string | undefined; ChecksumCRC32?: string | undefined }> = {
      operation: 'UploadPart',
      key: upload.Key,
      signal: own,
      // Parts end one after another, so what has been sent of each only keeps the deadline from seeing silence.
      onSent: (bytes) => onBytes(done + bytes),
      request: (client, body, options) =>
        client.send(new UploadPartCommand({ ...upload, PartNumber: index + 1, ...body }), options),
    }
    const answer = await (buffer === undefined
      ? sendStreamed(connection, piece, each)
      : sendFilled(connection, piece, buffer, each))
    if (answer.ETag === undefined) throw unexpectedAnswer('UploadPart', upload.Key, 'ETag')
    parts[index] = {
      PartNumber: index + 1,
      ETag: answer.ETag,
      ...(answer.ChecksumCRC32 === undefined ? {} : { ChecksumCRC32: answer.ChecksumCRC32 }),
    }
    done += piece.length
    onBytes(done)
  }
  let next = 0
  const runs = Array.from({ length: Math.min(PARTS_AT_ONCE, count) }, (_, run) => run)
  await forEachBounded(
    runs,
    runs.length,
    async (_run, _index, own) => {
      const buffered = partBytes <= BUFFERED_BYTES
      const leave = buffered ? await connection.memory.enter(partBytes, own) : undefined
      try {
        // One buffer for all the parts of a run: left to the collector, hundreds would be alive at once.
        const buffer = buffered ? Buffer.allocUnsafeSlow(partBytes) : undefined
        while (next < count) await sendPart(next++, buffer, own)
      } finally {
        leave?.()
      }
    },
    signal,
  )
  return parts
}

async function sendFilled<T>(connection: Connection, piece: Piece, buffer: Buffer, each: BodyRequest<T>): Promise<T> {
  const filled = buffer.subarray(0, piece.length)
  await piece.file.fill(filled, piece.offset)
  return sendBuffer(connection, filled, each)
}

/**
 * Removes the parts of an upload that will not be completed.
 *
 * @returns whether they are gone for certain; never throws
 */
export async function abortUpload(
  connection: Connection,
  fullKey: string,
  uploadId: string,
  signal: AbortSignal = AbortSignal.timeout(ABORT_MS),
): Promise<boolean> {
  const input = { Bucket: connection.options.bucket, Key: fullKey, UploadId: uploadId }
  try {
    await connection.send({ operation: 'AbortMultipartUpload', key: fullKey, signal }, (client, each) =>
      client.send(new AbortMultipartUploadCommand(input), each),
    )
    return true
  } catch (error) {
    return error instanceof S3RequestError && error.serviceCode === 'NoSuchUpload'
  }
}
