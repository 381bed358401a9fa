import { PutObjectCommand, type PutObjectCommandInput } from '@aws-sdk/client-s3'
import {
  monotonicProgress,
  NexusError,
  type OpOptions,
  openSnapshot,
  quoteKey,
  type Snapshot,
  type TransferProgress,
} from '@nexus/objectstore'
import type { Connection } from './client/connection.ts'
import { unexpectedAnswer } from './errors.ts'
import { fullKeyOf } from './keys.ts'
import { sendPiece } from './transfer/body.ts'
import { uploadInParts } from './transfer/parts.ts'
import { storedAs } from './transfer/stored-as.ts'
import type { UploadRecords } from './transfer/upload-records.ts'

/** Larger files go up in parts. */
const SINGLE_BYTES = 64 * 1024 * 1024
/** The protocol's limit of one request. */
const MAX_SINGLE_BYTES = 5 * 1024 ** 3

/** Stores a file's first `size` bytes, its size taken at open, as the object. */
export async function putObject(
  connection: Connection,
  records: UploadRecords,
  key: string,
  localPath: string,
  options: OpOptions,
): Promise<void> {
  await withSnapshot(localPath, options, async (file, progress) => {
    if (file.size > SINGLE_BYTES) await uploadInParts(connection, records, key, file, options)
    else await putSingle(connection, key, file, progress, options)
  })
}

/**
 * One request that creates the object if the store finds the key free.
 *
 * @throws S3RequestError with code `PreconditionFailed` when it is taken
 */
export async function createObject(
  connection: Connection,
  key: string,
  localPath: string,
  options: OpOptions,
): Promise<void> {
  await withSnapshot(localPath, options, async (file, progress) => {
    if (file.size > MAX_SINGLE_BYTES) {
      const message = `${quoteKey(key)} has ${file.size} bytes: an object can be created conditionally in one request only, of 5 GiB at most`
      throw new NexusError('UNSUPPORTED', message, { op: 'objectstore.putIfAbsent', key })
    }
    await putSingle(connection, key, file, progress, options, { IfNoneMatch: '*' })
  })
}

async function withSnapshot(
  localPath: string,
  { signal, onProgress }: OpOptions,
  store: (file: Snapshot, progress: TransferProgress) => Promise<void>,
): Promise<void> {
  signal?.throwIfAborted()
  const file = await openSnapshot(localPath)
  try {
    const progress = monotonicProgress(onProgress)
    await store(file, progress)
    progress.finished(file.size)
  } finally {
    await file.close()
  }
}

/** @param condition makes it a request that is sent once only */
async function putSingle(
  connection: Connection,
  key: string,
  file: Snapshot,
  progress: TransferProgress,
  { signal, onWait }: OpOptions,
  condition?: Pick<PutObjectCommandInput, 'IfNoneMatch'>,
): Promise<void> {
  const { options } = connection
  const fullKey = fullKeyOf(options.prefix, key)
  const fixed = { Bucket: options.bucket, Key: fullKey, ...storedAs(options), ...condition }
  const piece = { file, offset: 0, length: file.size }
  const { ETag } = await sendPiece(connection, piece, {
    operation: 'PutObject',
    key: fullKey,
    signal,
    onWait,
    once: condition !== undefined,
    progress,
    request: (client, body, sendOptions) => client.send(new PutObjectCommand({ ...fixed, ...body }), sendOptions),
  })
  if (ETag === undefined) throw unexpectedAnswer('PutObject', fullKey, 'ETag')
}
