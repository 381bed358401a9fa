import { randomBytes } from 'node:crypto'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { CreateBucketCommand, S3Client } from '@aws-sdk/client-s3'
import type { FightStore } from './fight-protocol.ts'
import { EMULATOR_CREDENTIALS, openS3Emulator } from '@nexus/objectstore-emulators/s3'

export const STORES = ['fs', 'emulator', 's3'] as const
export type StoreKind = (typeof STORES)[number]

/** A store that is empty. */
export interface Battlefield {
  store: FightStore
  close(): Promise<void>
}

/** @throws Error when `s3` is wanted and `NEXUS_TEST_S3_ENDPOINT` names no store */
export async function createBattlefield(kind: StoreKind, dir: string): Promise<Battlefield> {
  const bucket = `nexus-fight-${randomBytes(6).toString('hex')}`
  if (kind === 'fs') {
    const path = join(dir, bucket)
    mkdirSync(path)
    return { store: { backend: 'fs', bucket: path }, close: async () => undefined }
  }
  if (kind === 'emulator') {
    const emulator = await openS3Emulator()
    emulator.createBucket(bucket)
    const store = s3Store(dir, { endpoint: emulator.url, bucket, ...EMULATOR_CREDENTIALS })
    return { store, close: () => emulator.close() }
  }
  const { NEXUS_TEST_S3_ENDPOINT: endpoint } = process.env
  if (endpoint === undefined) throw new Error('NEXUS_TEST_S3_ENDPOINT names no store')
  const accessKeyId = process.env['NEXUS_TEST_S3_ACCESS_KEY_ID'] ?? ''
  const secretAccessKey = process.env['NEXUS_TEST_S3_SECRET_ACCESS_KEY'] ?? ''
  const credentials = { accessKeyId, secretAccessKey }
  const client = new S3Client({ endpoint, region: 'us-east-1', forcePathStyle: true, credentials })
  await client.send(new CreateBucketCommand({ Bucket: bucket }))
  client.destroy()
  return { store: s3Store(dir, { endpoint, bucket, ...credentials }), close: async () => undefined }
}

interface S3Place {
  endpoint: string
  bucket: string
  accessKeyId: string
  secretAccessKey: string
}

function s3Store(dir: string, { endpoint, bucket, accessKeyId, secretAccessKey }: S3Place): FightStore {
  const path = join(dir, 'credentials')
  const lines = ['[default]', `aws_access_key_id = ${accessKeyId}`, `aws_secret_access_key = ${secretAccessKey}`, '']
  writeFileSync(path, lines.join('\n'), { mode: 0o600 })
  return { backend: 's3', endpoint, bucket, credentials_file: path }
}
