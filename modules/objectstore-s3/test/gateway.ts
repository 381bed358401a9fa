import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client } from 'minio'
import { afterAll, describe } from 'vitest'

/** The real store that the environment names, seen with a client that is not the driver's. */
export interface Gateway {
  endpoint: string
  client: Client
  credentialsFile: string
  newBucket: () => Promise<string>
}

const { NEXUS_TEST_S3_ENDPOINT, NEXUS_TEST_S3_ACCESS_KEY_ID, NEXUS_TEST_S3_SECRET_ACCESS_KEY } = process.env

let credentialsDirectory: string | undefined
let credentialsFiles = 0

export const gateway: Gateway | undefined =
  NEXUS_TEST_S3_ENDPOINT === undefined || NEXUS_TEST_S3_ENDPOINT === ''
    ? undefined
    : openGateway(NEXUS_TEST_S3_ENDPOINT, NEXUS_TEST_S3_ACCESS_KEY_ID ?? '', NEXUS_TEST_S3_SECRET_ACCESS_KEY ?? '')

/** `describe`, skipped where there is no real store. */
export const describeOnGateway: (title: string, define: () => void) => void =
  gateway === undefined ? describe.skip : describe

if (gateway === undefined) {
  process.emitWarning('the suites on a real store are skipped: NEXUS_TEST_S3_ENDPOINT names none')
}

afterAll(() => {
  if (credentialsDirectory !== undefined) rmSync(credentialsDirectory, { recursive: true, force: true })
})

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

/** A credentials file in AWS format, gone after the last test of the file. */
export function writeCredentials(accessKeyId: string, secretAccessKey: string, sessionToken?: string): string {
  credentialsDirectory ??= mkdtempSync(join(tmpdir(), 'nexus-s3-credentials-'))
  const path = join(credentialsDirectory, `credentials-${credentialsFiles++}`)
  const keys = [`aws_access_key_id = ${accessKeyId}`, `aws_secret_access_key = ${secretAccessKey}`]
  const token = sessionToken === undefined ? [] : [`aws_session_token = ${sessionToken}`]
  writeFileSync(path, ['[default]', ...keys, ...token, ''].join('\n'))
  return path
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
