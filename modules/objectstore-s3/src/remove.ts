import { DeleteObjectCommand } from '@aws-sdk/client-s3'
import type { OpOptions } from '@nexus/objectstore'
import type { Connection } from './client/connection.ts'
import { classifyS3Error } from './errors.ts'
import { fullKeyOf } from './keys.ts'

/** Removes an object; a missing one is a success. */
export async function deleteObject(connection: Connection, key: string, { signal, onWait }: OpOptions): Promise<void> {
  const { bucket, prefix } = connection.options
  const target = { Bucket: bucket, Key: fullKeyOf(prefix, key) }
  try {
    await connection.send({ operation: 'DeleteObject', key: target.Key, signal, onWait }, (client, each) =>
      client.send(new DeleteObjectCommand(target), each),
    )
  } catch (error) {
    if (classifyS3Error(error) !== 'not-found') throw error
  }
}
