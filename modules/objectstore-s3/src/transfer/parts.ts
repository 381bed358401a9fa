import { createHash } from 'node:crypto'
import {
  AbortMultipartUploadCommand,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  HeadObjectCommand,
  UploadPartCommand,
} from '@aws-sdk/client-s3'
import {
  forEachBounded,
  monotonicProgress,
  type OpOptions,
  SharedWait,
  type Snapshot,
  type Waiter,
} from '@nexus/objectstore'
import { sendPiece } from './body.ts'
import type { Connection } from '../client/connection.ts'
import { S3RequestError, unexpectedAnswer } from '../errors.ts'
import { fullKeyOf } from '../keys.ts'
import { storedAs } from './stored-as.ts'
import type { UploadRecords } from './upload-records.ts'

/** The protocol's limits. */
const MAX_PARTS = 10_000
/** Parts of one file under way at once. */
const PARTS_AT_ONCE = 4
const MIB = 1024 * 1024
/** How long a failed upload may take to be cleared away, in ms: its caller waits. */
const ABORT_MS = 5_000

/** The size of the parts: the least that is allowed, and more where 10,000 would not do. A whole number of MiB. */
export function partSizeFor(sizeBytes: number, leastBytes: number): number {
  return Math.max(leastBytes, Math.ceil(sizeBytes / MAX_PARTS / MIB) * MIB)
}

/**
 * Uploads a file in parts; a part that fails is sent again, and those that are stored stay. A failure aborts the upload at the
 * store; the object is the old one or the whole new one.
 */
export async function uploadInParts(
  connection: Connection,
  records: UploadRecords,
  key: string,
  file: Snapshot,
  options: OpOptions,
): Promise<void> {
  const { signal, onWait } = options
  const { bucket, prefix, checksums } = connection.options
  const target = { Bucket: bucket, Key: fullKeyOf(prefix, key) }
  const context = { key: target.Key, signal, onWait }
  const { UploadId } = await connection.send({ ...context, operation: 'CreateMultipartUpload' }, (client, each) =>
    client.send(
      new CreateMultipartUploadCommand({
        ...target,
        ...storedAs(connection.options),
        // The parts' checksums count for nothing unless they are announced here, which the SDK leaves to us.
        ...(checksums === undefined || checksums === 'when_supported' ? { ChecksumAlgorithm: 'CRC32' as const } : {}),
      }),
      each,
    ),
  )
  if (UploadId === undefined) throw unexpectedAnswer('CreateMultipartUpload', target.Key, 'UploadId')
  const upload = { ...target, UploadId }
  const record = records.add(target.Key, UploadId)
  let settled = true
  try {
    const parts = await sendParts(connection, upload, file, options)
    // Before this nothing is visible; whether a lost answer of it did happen, putting again decides.
    settled = false
    await complete(connection, upload, parts, context)
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
  context: { key: string } & Waiter,
): Promise<void> {
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
  file: Snapshot,
  { signal, onProgress, onWait }: OpOptions,
): Promise<CompletedParts> {
  const partBytes = partSizeFor(file.size, connection.options.partSizeBytes)
  const count = Math.ceil(file.size / partBytes)
  const parts: CompletedParts = Array.from({ length: count })
  const pieceProgress = sharedProgress(onProgress)
  const wait = new SharedWait(onWait)
  await forEachBounded(
    parts.keys(),
    PARTS_AT_ONCE,
    async (index, _nth, own) => {
      const offset = index * partBytes
      const piece = { file, offset, length: Math.min(partBytes, file.size - offset) }
      const ended = wait.begin()
      try {
        const answer = await sendPiece<PartAnswer>(connection, piece, {
          operation: 'UploadPart',
          key: upload.Key,
          signal: own,
          onWait: wait.onWait,
          progress: pieceProgress(),
          request: (client, body, options) =>
            client.send(new UploadPartCommand({ ...upload, PartNumber: index + 1, ...body }), options),
        })
        if (answer.ETag === undefined) throw unexpectedAnswer('UploadPart', upload.Key, 'ETag')
        parts[index] = {
          PartNumber: index + 1,
          ETag: answer.ETag,
          ...(answer.ChecksumCRC32 === undefined ? {} : { ChecksumCRC32: answer.ChecksumCRC32 }),
        }
      } finally {
        ended()
      }
    },
    signal,
  )
  return parts
}

type PartAnswer = { ETag?: string | undefined; ChecksumCRC32?: string | undefined }

/** The progress of pieces that move at once, reported as that of their whole. */
function sharedProgress(onProgress: OpOptions['onProgress']): () => ReturnType<typeof monotonicProgress> {
  const total = { objects: 0, bytes: 0, repeatedBytes: 0 }
  return () => {
    let last = { bytes: 0, repeatedBytes: 0 }
    return monotonicProgress(({ bytes, repeatedBytes = 0 }) => {
      total.bytes += bytes - last.bytes
      total.repeatedBytes += repeatedBytes - last.repeatedBytes
      last = { bytes, repeatedBytes }
      onProgress?.({ ...total })
    })
  }
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
