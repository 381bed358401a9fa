import { createHash } from 'node:crypto'
import { Readable } from 'node:stream'
import { GetObjectCommand, ListObjectsV2Command, PutObjectCommand, S3Client } from '@aws-sdk/client-s3'
import { EMULATOR_CREDENTIALS, openS3Emulator, type S3Emulator } from '@nexus/objectstore-emulators/s3'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'

let emulator: S3Emulator
let client: S3Client

beforeEach(async () => {
  emulator = await openS3Emulator()
  emulator.createBucket('bucket')
  client = openClient()
})

afterEach(async () => {
  client.destroy()
  await emulator.close()
})

function openClient(more: { systemClockOffset?: number } = {}): S3Client {
  return new S3Client({
    endpoint: emulator.url,
    region: 'us-east-1',
    forcePathStyle: true,
    credentials: EMULATOR_CREDENTIALS,
    maxAttempts: 1,
    ...more,
  })
}

/** What the SDK sends in frames, with a checksum after the last one. */
function streamed(content: Buffer): PutObjectCommand {
  const pieces = Array.from({ length: Math.ceil(content.length / 10_000) }, (_, i) =>
    content.subarray(i * 10_000, (i + 1) * 10_000),
  )
  return new PutObjectCommand({
    Bucket: 'bucket',
    Key: 'a',
    Body: Readable.from(pieces),
    ContentLength: content.length,
  })
}

const CONTENT = Buffer.alloc(123_456, 'framed and summed ')

describe("the emulator, by the SDK's own ways", () => {
  it('takes the frames off a streamed body and verifies the checksum behind it', async () => {
    await client.send(streamed(CONTENT))
    expect(emulator.requests[0]?.headers['x-amz-content-sha256']).toBe('STREAMING-UNSIGNED-PAYLOAD-TRAILER')
    expect((await emulator.read('bucket', 'a'))?.equals(CONTENT)).toBe(true)
    expect(emulator.stat('bucket', 'a')?.headers['x-amz-checksum-crc32']).toBeDefined()
    const { Body } = await client.send(new GetObjectCommand({ Bucket: 'bucket', Key: 'a' }))
    expect(Buffer.from((await Body?.transformToByteArray()) ?? []).equals(CONTENT)).toBe(true)
  })

  it('keeps the frames as content where that was planned', async () => {
    emulator.quirks.keepsChunkFraming = true
    await client.send(streamed(CONTENT))
    const stored = await emulator.read('bucket', 'a')
    expect(stored?.length).toBeGreaterThan(CONTENT.length)
    expect(stored?.toString('latin1')).toContain('x-amz-checksum-crc32:')
  })

  it.each(['CRC32', 'CRC32C', 'CRC64NVME', 'SHA1', 'SHA256'] as const)('verifies %s both ways', async (algorithm) => {
    const put = { Bucket: 'bucket', Key: 'a', Body: CONTENT, ChecksumAlgorithm: algorithm }
    await client.send(new PutObjectCommand(put))
    const get = new GetObjectCommand({ Bucket: 'bucket', Key: 'a', ChecksumMode: 'ENABLED' })
    const { Body } = await client.send(get)
    expect((await Body?.transformToByteArray())?.length).toBe(CONTENT.length)
  })

  it('refuses a checksum that does not match', async () => {
    const put = { Bucket: 'bucket', Key: 'a', Body: CONTENT, ChecksumCRC32: 'AAAAAA==' }
    await expect(client.send(new PutObjectCommand(put))).rejects.toMatchObject({ name: 'BadDigest' })
    const md5 = createHash('md5').update('other').digest('base64')
    const other = { Bucket: 'bucket', Key: 'a', Body: CONTENT, ContentMD5: md5 }
    await expect(client.send(new PutObjectCommand(other))).rejects.toMatchObject({ name: 'BadDigest' })
    expect(emulator.keys('bucket')).toEqual([])
  })

  it('refuses a clock that is wrong, which the SDK then sets right by its answer', async () => {
    const late = openClient({ systemClockOffset: 3_600_000 })
    const list = (): Promise<unknown> => late.send(new ListObjectsV2Command({ Bucket: 'bucket' }))
    await expect(list()).rejects.toMatchObject({ name: 'RequestTimeTooSkewed' })
    await list()
    late.destroy()
  })
})
