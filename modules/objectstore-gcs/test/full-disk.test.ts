import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { BUCKET, openTestBucket, type TestBucket } from './test-bucket.ts'

let bucket: TestBucket

beforeEach(async () => {
  bucket = await openTestBucket()
})

afterEach(() => bucket.remove())

describe('a local disk that takes no more', () => {
  it('is what a download blames, not the store, and it is not tried again', async () => {
    await bucket.client.plant('k', new Uint8Array(6 * 1024 * 1024))
    const path = bucket.freshPath()
    const child = fileURLToPath(new URL('full-disk-child.ts', import.meta.url))
    // A limit on the size of files, in KiB, that fails writes instead of killing the writer.
    const limited = 'trap "" XFSZ; ulimit -f 4096; exec "$0" "$@"'
    const args = ['-c', limited, process.execPath, ...process.execArgv, child, bucket.emulator.url, BUCKET, 'k', path]
    const { stdout } = await promisify(execFile)('bash', args)
    expect(stdout).toBe('LOCAL_IO')
    expect(existsSync(path)).toBe(false)
    expect(bucket.emulator.log.filter((line) => line === 'objects.download k')).toHaveLength(1)
  })
})
