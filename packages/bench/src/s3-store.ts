import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Agent } from 'node:http'
import { CreateBucketCommand, S3Client } from '@aws-sdk/client-s3'
import type { ConfigInput } from '@nexus/engine'
// oxlint-disable-next-line import/no-unassigned-import -- registers itself as `s3`
import '@nexus/objectstore-s3'

/** A real store that speaks S3, and a bucket in it. */
export interface S3Store {
  endpoint: string
  bucket: string
  accessKeyId: string
  secretAccessKey: string
  /** In AWS format. */
  credentialsFile: string
}

/** A new bucket of the store that `NEXUS_TEST_S3_ENDPOINT` names; undefined where it names none. */
export async function createS3Bucket(dir: string): Promise<S3Store | undefined> {
  const { NEXUS_TEST_S3_ENDPOINT: endpoint = '' } = process.env
  if (endpoint === '') return undefined
  const accessKeyId = process.env['NEXUS_TEST_S3_ACCESS_KEY_ID'] ?? ''
  const secretAccessKey = process.env['NEXUS_TEST_S3_SECRET_ACCESS_KEY'] ?? ''
  const credentialsFile = join(dir, 'credentials')
  writeFileSync(
    credentialsFile,
    `[default]\naws_access_key_id = ${accessKeyId}\naws_secret_access_key = ${secretAccessKey}\n`,
  )
  const bucket = `nexus-bench-${randomBytes(6).toString('hex')}`
  const store = { endpoint, bucket, accessKeyId, secretAccessKey, credentialsFile }
  const client = bareClient(store, 1)
  await client.send(new CreateBucketCommand({ Bucket: bucket }))
  client.destroy()
  return store
}

/** The SDK as it comes, with enough sockets. */
export function bareClient({ endpoint, accessKeyId, secretAccessKey }: S3Store, sockets: number): S3Client {
  return new S3Client({
    endpoint,
    region: 'us-east-1',
    forcePathStyle: true,
    credentials: { accessKeyId, secretAccessKey },
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    requestHandler: { httpAgent: new Agent({ keepAlive: true, maxSockets: sockets }) },
  })
}

/** The `core` part of a configuration that stores there. */
export function s3Core({ endpoint, bucket, credentialsFile }: S3Store): NonNullable<ConfigInput['core']> {
  return { object_store: { backend: 's3', endpoint, bucket, credentials_file: credentialsFile } }
}
