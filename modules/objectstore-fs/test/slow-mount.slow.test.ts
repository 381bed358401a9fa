import { readFileSync } from 'node:fs'
import { ObjectStore } from '@nexus/objectstore'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createTestBucket, type TestBucket } from './open-bucket.ts'

const MIB = 1024 * 1024
/** Time runs so much faster: rates are higher, and limits shorter. */
const SCALE = 16

let test: TestBucket

beforeEach(() => {
  test = createTestBucket()
})

afterEach(() => test.remove())

describe.each([
  ['256 KiB/s', 256 * 1024, '16 files of 1 MiB at once', Array.from({ length: 16 }, () => MIB)],
  ['12 Mbit/s', 1_500_000, 'one file of 100 MiB', [100 * MIB]],
] as const)('on a mount of %s', (_rate, bytesPerSecond, what, sizes) => {
  it(`${what} goes up and comes down whole`, async () => {
    const backend = await test.open({}, { slowMsPerMiB: (MIB / bytesPerSecond / SCALE) * 1000 })
    const deadlines = { idleMs: 30_000 / SCALE, baseMs: 30_000 / SCALE, bytesPerSecond: MIB * SCALE }
    const store = new ObjectStore(backend, { name: 'fs', minRateKibS: 16 * SCALE, deadlines })
    const files = sizes.map((bytes) => test.file(Buffer.alloc(bytes, 'nexus')))
    await Promise.all(files.map((path, index) => store.put(`s/${index}`, path)))
    const copies = files.map(() => test.freshPath())
    await Promise.all(copies.map((path, index) => store.get(`s/${index}`, path)))
    for (const [index, path] of copies.entries()) {
      expect(readFileSync(path).equals(readFileSync(files[index] ?? ''))).toBe(true)
    }
  }, 60_000)
})
