import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client } from 'minio'
import { describe } from 'vitest'

/** The real store that the environment names, seen with a client that is not the driver's. */
export interface Gateway {
  endpoint: string
  client: Client
  credentialsFile: string
  newBucket: () => Promise<string>
}

const { NEXUS_TEST_S3_ENDPOINT, NEXUS_TEST_S3_ACCESS_KEY_ID, NEXUS_TEST_S3_SECRET_ACCESS_KEY } = process.env

export const gateway: Gateway | undefined =
  NEXUS_TEST_S3_ENDPOINT === undefined || NEXUS_TEST_S3_ENDPOINT === ''
    ? undefined
    : openGateway(NEXUS_TEST_S3_ENDPOINT, NEXUS_TEST_S3_ACCESS_KEY_ID ?? '', NEXUS_TEST_S3_SECRET_ACCESS_KEY ?? '')

/** A client of another make for any store on loopback. */
export function otherClient(endpoint: string, accessKey: string, secretKey: string): Client {
  const { hostname, port } = new URL(endpoint)
  return new Client({
    endPoint: hostname,
    port: Number(port),
    useSSL: false,
    accessKey,
    secretKey,
    pathStyle: true,
    region: 'us-east-1',
  })
}

/** A credentials file in AWS format, in a directory of its own. */
export function writeCredentials(accessKeyId: string, secretAccessKey: string, sessionToken?: string): string {
  const path = join(mkdtempSync(join(tmpdir(), 'nexus-s3-credentials-')), 'credentials')
  const token = sessionToken === undefined ? '' : `aws_session_token = ${sessionToken}\n`
  writeFileSync(
    path,
    `[default]\naws_access_key_id = ${accessKeyId}\naws_secret_access_key = ${secretAccessKey}\n${token}`,
  )
  return path
}

/** `describe`, skipped where there is no real store. */
export const describeOnGateway: (title: string, define: () => void) => void =
  gateway === undefined ? describe.skip : describe

if (gateway === undefined) {
  process.emitWarning('the suites on a real store are skipped: NEXUS_TEST_S3_ENDPOINT names none')
}

function openGateway(endpoint: string, accessKeyId: string, secretAccessKey: string): Gateway {
  const client = otherClient(endpoint, accessKeyId, secretAccessKey)
  let buckets = 0
  return {
    endpoint,
    client,
    credentialsFile: writeCredentials(accessKeyId, secretAccessKey),
    newBucket: async () => {
      const bucket = `nexus-${process.pid}-${Date.now()}-${buckets++}`
      await client.makeBucket(bucket)
      return bucket
    },
  }
}
