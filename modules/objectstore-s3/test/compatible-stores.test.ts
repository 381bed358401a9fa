import { truncateSync } from 'node:fs'
import { ObjectStore } from '@nexus/objectstore'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type EmulatedBucket, openEmulatedBucket } from './emulated-bucket.ts'

let test: EmulatedBucket

beforeEach(async () => {
  test = await openEmulatedBucket()
})

afterEach(() => test.remove())

function filesOfEachKind(): string[] {
  const streamed = test.file('begin')
  truncateSync(streamed, 9 * 1024 * 1024)
  const inParts = test.file('begin')
  truncateSync(inParts, 65 * 1024 * 1024)
  return [test.file(''), test.file('small'), streamed, inParts]
}

describe('a store that refuses checksum headers', () => {
  it('works with an endpoint by default: puts of every kind, reads, conditional creates and deletes', async () => {
    test.emulator.quirks.rejectsChecksums = true
    const backend = await test.open()
    const files = filesOfEachKind()
    await Promise.all(files.map((path, index) => backend.put(`s/${index}`, path)))
    expect(await backend.putIfAbsent('s/new', files[1] ?? '')).toBe(true)
    await backend.get('s/1', test.freshPath())
    expect(await backend.list('s')).toHaveLength(5)
    await Promise.all([0, 1, 2, 3, 'new'].map((name) => backend.delete(`s/${name}`)))
    expect(test.emulator.keys(test.bucket)).toEqual([])
  })

  it('is permanent, not an outage, where checksums were asked for', async () => {
    test.emulator.quirks.rejectsChecksums = true
    const store = new ObjectStore(await test.open({ checksums: 'when_supported' }), { name: 's3' })
    await expect(store.put('a', test.file('x'))).rejects.toMatchObject({ code: 'PRECONDITION', retryable: false })
  })
})

describe('a store that keeps chunk framing as content', () => {
  it.each(['when_supported', 'when_required'])('is never sent any (checksums %s)', async (checksums) => {
    test.emulator.quirks.keepsChunkFraming = true
    const backend = await test.open({ checksums })
    const files = filesOfEachKind()
    await Promise.all(files.map((path, index) => backend.put(`s/${index}`, path)))
    const sizes = files.map((_, index) => test.emulator.stat(test.bucket, `s/${index}`)?.sizeBytes)
    expect(sizes).toEqual([0, 5, 9 * 1024 * 1024, 65 * 1024 * 1024])
    const framed = test.emulator.requests.filter(({ headers }) => headers['x-amz-trailer'] !== undefined)
    expect(framed).toEqual([])
  })
})

describe('checksums as at Amazon', () => {
  it('come with uploads of every kind, and the store verifies them', async () => {
    const backend = await test.open({ checksums: 'when_supported' })
    const files = filesOfEachKind()
    await Promise.all(files.map((path, index) => backend.put(`s/${index}`, path)))
    const uploads = test.emulator.requests.filter(({ operation }) => /^(?:PutObject|UploadPart)$/.test(operation))
    expect(uploads).toHaveLength(3 + 9)
    for (const { headers } of uploads) expect(headers['x-amz-checksum-crc32']).toBeDefined()
    const begun = test.emulator.requests.filter(({ operation }) => operation === 'CreateMultipartUpload')
    expect(begun.map(({ headers }) => headers['x-amz-checksum-algorithm'])).toEqual(['CRC32'])
  })
})

describe('a store that lists in small pages', () => {
  it('is listed to the end', async () => {
    test.emulator.quirks.pageSize = 3
    const backend = await test.open()
    const path = test.file('x')
    await Promise.all(Array.from({ length: 10 }, (_, i) => backend.put(`s/${i}`, path)))
    expect(await backend.list('s')).toHaveLength(10)
  })
})
