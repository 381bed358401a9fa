import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { BUCKET, openTestBucket, type TestBucket } from './test-bucket.ts'

const fixture = (name: string): string => fileURLToPath(new URL(`fixtures/${name}`, import.meta.url))

let bucket: TestBucket

beforeEach(async () => {
  const [key, cert] = ['tls-key.pem', 'tls-cert.pem'].map((name) => readFileSync(fixture(name), 'utf8'))
  bucket = await openTestBucket({ tls: { key: key ?? '', cert: cert ?? '' } })
})

afterEach(() => bucket.remove())

/** Uploads from a process of its own, and gives its exit code. */
async function upload(authorities: string | undefined): Promise<number> {
  const child = spawn(
    process.execPath,
    [
      ...process.execArgv,
      fileURLToPath(new URL('upload-child.ts', import.meta.url)),
      bucket.emulator.url,
      BUCKET,
      'k',
      bucket.file(Buffer.alloc(600_000, 7)),
    ],
    { env: { ...process.env, NODE_EXTRA_CA_CERTS: authorities }, stdio: 'ignore' },
  )
  const [code] = (await once(child, 'close')) as [number]
  return code
}

describe('an endpoint over TLS', () => {
  it('is used under an authority that the process trusts', async () => {
    expect(await upload(fixture('tls-cert.pem'))).toBe(0)
    expect(bucket.emulator.log.at(-1)).toBe('uploads.chunk k')
  })

  it('is refused under any other, before anything is sent', async () => {
    expect(await upload(undefined)).not.toBe(0)
    expect(bucket.emulator.log).toEqual([])
  })
})
