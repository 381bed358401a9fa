import type { PutObjectCommandInput } from '@aws-sdk/client-s3'
import type { S3Options } from '../options.ts'

/** The request fields that say how objects are kept. */
export function storedAs({
  storageClass,
  serverSideEncryption,
  kmsKeyId,
}: S3Options): Pick<PutObjectCommandInput, 'StorageClass' | 'ServerSideEncryption' | 'SSEKMSKeyId'> {
  return {
    ...(storageClass === undefined
      ? {}
      : { StorageClass: storageClass as NonNullable<PutObjectCommandInput['StorageClass']> }),
    ...(serverSideEncryption === undefined ? {} : { ServerSideEncryption: serverSideEncryption }),
    ...(kmsKeyId === undefined ? {} : { SSEKMSKeyId: kmsKeyId }),
  }
}
