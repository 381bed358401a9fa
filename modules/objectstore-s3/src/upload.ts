import { PutObjectCommand, type PutObjectCommandInput, type PutObjectCommandOutput } from '@aws-sdk/client-s3'
import { NexusError, type OpOptions, quoteKey } from '@nexus/objectstore'
import { BUFFERED_BYTES, type BodyFields, type BodyRequest, sendBuffered, sendStreamed } from './transfer/body.ts'
import type { Connection } from './client/connection.ts'
import { unexpectedAnswer } from './errors.ts'
import { fullKeyOf } from './keys.ts'
import { uploadInParts } from './transfer/parts.ts'
import { SourceFile } from './transfer/local-source.ts'
import { storedAs } from './transfer/stored-as.ts'
import type { UploadRecords } from './transfer/upload-records.ts'

/** Larger files go up in parts. */
const SINGLE_BYTES = 64 * 1024 * 1024
/** The protocol's limit of one request. */
const MAX_SINGLE_BYTES = 5 * 1024 ** 3

/** Stores a file's first `size` bytes, its size taken at open, as the object. Gives the size. */
export async function putObject(
  connection: Connection,
  records: UploadRecords,
  key: string,
  localPath: string,
  { signal, onProgress }: OpOptions,
): Promise<number> {
  const file = new SourceFile(localPath)
  try {
    const onBytes = growing(onProgress)
    if (file.sizeBytes > SINGLE_BYTES) await uploadInParts(connection, records, key, file, { signal, onBytes })
    else await putSingle(connection, key, file, { signal, onSent: onBytes }, {})
    return file.sizeBytes
  } finally {
    file.close()
  }
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
  { signal, onProgress }: OpOptions,
): Promise<number> {
  const file = new SourceFile(localPath)
  try {
    if (file.sizeBytes > MAX_SINGLE_BYTES) {
      const message = `${quoteKey(key)} has ${file.sizeBytes} bytes: an object can be created conditionally in one request only, of 5 GiB at most`
      throw new NexusError('UNSUPPORTED', message, { op: 'objectstore.putIfAbsent', key })
    }
    const onSent = growing(onProgress)
    await putSingle(connection, key, file, { signal, onSent, once: true }, { IfNoneMatch: '*' })
    return file.sizeBytes
  } finally {
    file.close()
  }
}

async function putSingle(
  connection: Connection,
  key: string,
  file: SourceFile,
  {
    signal,
    onSent,
    once = false,
  }: { signal?: AbortSignal | undefined; onSent: (bytes: number) => void; once?: boolean },
  condition: Pick<PutObjectCommandInput, 'IfNoneMatch'>,
): Promise<void> {
  const { options } = connection
  const fullKey = fullKeyOf(options.prefix, key)
  const fixed = { Bucket: options.bucket, Key: fullKey, ...storedAs(options), ...condition }
  const piece = { file, offset: 0, length: file.sizeBytes }
  const each: BodyRequest<PutObjectCommandOutput> = {
    operation: 'PutObject',
    key: fullKey,
    signal,
    once,
    onSent,
    request: (client, body: BodyFields, sendOptions) =>
      client.send(new PutObjectCommand({ ...fixed, ...body }), sendOptions),
  }
  const send = piece.length <= BUFFERED_BYTES ? sendBuffered : sendStreamed
  const { ETag } = await send(connection, piece, each)
  if (ETag === undefined) throw unexpectedAnswer('PutObject', fullKey, 'ETag')
}

/** Reports bytes of the one object, and nothing when a second attempt goes over the same bytes again. */
function growing(onProgress: OpOptions['onProgress']): (bytes: number) => void {
  let most = 0
  return (bytes) => {
    if (bytes <= most) return
    most = bytes
    onProgress?.({ objects: 0, bytes })
  }
}
