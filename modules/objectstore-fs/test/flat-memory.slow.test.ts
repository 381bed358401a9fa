import { spawnSync } from 'node:child_process'
import { mkdirSync, statSync, truncateSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createTestBucket, type TestBucket } from './open-bucket.ts'

let test: TestBucket

beforeEach(() => {
  test = createTestBucket()
})

afterEach(() => test.remove())

describe('a large object', () => {
  it('is uploaded, downloaded and hydrated in flat memory', () => {
    const path = test.file('begin')
    const size = 300 * 1024 * 1024
    truncateSync(path, size)
    const local = test.freshPath()
    mkdirSync(local)
    const child = fileURLToPath(new URL('flat-memory-child.ts', import.meta.url))
    const args = [...process.execArgv, child, test.bucket, path, local]
    const { stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' })
    expect(stderr).toBe('')
    expect(Number(stdout)).toBeLessThan(64)
    expect(statSync(join(local, 'got')).size).toBe(size)
    expect(statSync(join(local, 'hydrated', 'large')).size).toBe(size)
  })
})
