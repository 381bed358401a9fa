import { type Client, S3Error } from 'minio'

/** Every key of a bucket, as a client of another make sees it. */
export async function keysOf(client: Client, bucket: string): Promise<string[]> {
  const keys: string[] = []
  for await (const { name } of client.listObjectsV2(bucket, '', true) as AsyncIterable<{ name?: string }>) {
    if (name !== undefined) keys.push(name)
  }
  return keys
}

export async function bytesOf(client: Client, bucket: string, key: string): Promise<Buffer> {
  const chunks: Buffer[] = []
  for await (const chunk of (await client.getObject(bucket, key)) as AsyncIterable<Buffer>) chunks.push(chunk)
  return Buffer.concat(chunks)
}

export async function existsIn(client: Client, bucket: string, key: string): Promise<boolean> {
  try {
    await client.statObject(bucket, key)
    return true
  } catch (error) {
    if (error instanceof S3Error && error.code === 'NotFound') return false
    throw error
  }
}
