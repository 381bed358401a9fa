import { execFile } from 'node:child_process'
import { statSync, truncateSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type EmulatedBucket, openEmulatedBucket } from './emulated-bucket.ts'

let test: EmulatedBucket

beforeEach(async () => {
  test = await openEmulatedBucket()
})

afterEach(() => test.remove())

const MIB = 1024 * 1024

async function grownMib(checksums: string, path: string, target: string): Promise<number> {
  const child = fileURLToPath(new URL('flat-memory-child.ts', import.meta.url))
  const args = [...process.execArgv, child, test.emulator.url, test.credentialsFile, checksums, path, target]
  const { stdout } = await promisify(execFile)(process.execPath, args)
  return Number(stdout)
}

describe('a file of 2.1 GiB', () => {
  it('goes up in parts and comes down in flat memory', async () => {
    const path = test.file('begin')
    const sizeBytes = 2150 * MIB
    truncateSync(path, sizeBytes)
    const target = test.freshPath()
    expect(await grownMib('when_required', path, target)).toBeLessThan(100)
    expect(test.emulator.stat(test.bucket, 's/large')?.sizeBytes).toBe(sizeBytes)
    expect(statSync(target).size).toBe(sizeBytes)
  }, 240_000)
})

describe('a file of 60 MiB', () => {
  it('goes up in one request in flat memory, with the checksum ahead of it', async () => {
    const path = test.file('begin')
    truncateSync(path, 60 * MIB)
    expect(await grownMib('when_supported', path, '')).toBeLessThan(48)
    const uploads = test.emulator.requests.filter(({ key }) => key === 's/large')
    expect(uploads.map(({ operation }) => operation)).toEqual(['PutObject'])
    expect(uploads[0]?.headers['x-amz-checksum-crc32']).toBeDefined()
  })
})
