import { fork } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, truncateSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { ObjectStore } from '@nexus/objectstore'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { partSizeFor } from '../src/transfer/parts.ts'
import { type EmulatedBucket, openEmulatedBucket } from './emulated-bucket.ts'
import { otherClient } from './gateway.ts'
import { EMULATOR_CREDENTIALS } from '@nexus/objectstore-emulators/s3'

const MIB = 1024 * 1024

let test: EmulatedBucket

beforeEach(async () => {
  test = await openEmulatedBucket()
})

afterEach(() => test.remove())

function largeFile(mib = 80): string {
  const path = test.file('begin')
  truncateSync(path, mib * MIB)
  return path
}

function notedUploads(): string[] {
  const state = join(test.directory, 'state')
  return readdirSync(state, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.json'))
}

async function killedInTheMiddle(path: string): Promise<void> {
  const state = join(test.directory, 'state')
  const child = fork(
    fileURLToPath(new URL('multipart-child.ts', import.meta.url)),
    [test.emulator.url, test.credentialsFile, state, path],
    { execArgv: process.execArgv },
  )
  await once(child, 'message')
  const exited = once(child, 'exit')
  child.kill('SIGKILL')
  await exited
}

describe('the size of parts', () => {
  it.each([
    [65 * MIB, 8 * MIB],
    [80_000 * MIB, 8 * MIB],
    [80_000 * MIB + 1, 9 * MIB],
    [5 * 1024 * 1024 * MIB, 525 * MIB],
  ])('of %d bytes is %d, so that 10,000 suffice', (sizeBytes, partBytes) => {
    expect(partSizeFor(sizeBytes, 8 * MIB)).toBe(partBytes)
    expect(Math.ceil(sizeBytes / partBytes)).toBeLessThanOrEqual(10_000)
  })
})

describe('a multipart upload', () => {
  it('that fails is aborted, leaves no note, and the old object is still there', async () => {
    const store = new ObjectStore(await test.open({ max_attempts: 1 }), { name: 's3' })
    await test.emulator.plant(test.bucket, 's/large', 'old')
    const rule = { status: 500, code: 'InternalError', kind: 'status' } as const
    test.emulator.faults.add({ fault: rule, on: ({ operation }) => operation === 'UploadPart', after: 3 })
    await expect(store.put('s/large', largeFile())).rejects.toMatchObject({ code: 'UNAVAILABLE' })
    expect(test.emulator.openUploads(test.bucket)).toEqual([])
    expect(notedUploads()).toEqual([])
    expect(String(await test.emulator.read(test.bucket, 's/large'))).toBe('old')
  })

  it('that is refused at its completion is aborted', async () => {
    const store = new ObjectStore(await test.open({ max_attempts: 1 }), { name: 's3' })
    const rule = { status: 403, code: 'AccessDenied', kind: 'status' } as const
    test.emulator.faults.add({ fault: rule, on: ({ operation }) => operation === 'CompleteMultipartUpload' })
    await expect(store.put('s/large', largeFile())).rejects.toMatchObject({ code: 'PERMISSION' })
    expect(test.emulator.openUploads(test.bucket)).toEqual([])
    expect(test.emulator.keys(test.bucket)).toEqual([])
  })

  it('that the caller aborts is aborted at the store too', async () => {
    const backend = await test.open()
    const abort = new AbortController()
    const reason = new Error('enough')
    const call = backend.put('s/large', largeFile(), { signal: abort.signal, onProgress: () => abort.abort(reason) })
    await expect(call).rejects.toBe(reason)
    expect(test.emulator.openUploads(test.bucket)).toEqual([])
    expect(test.emulator.keys(test.bucket)).toEqual([])
  })

  it('whose completion was answered into the void is found complete', async () => {
    const store = new ObjectStore(await test.open(), { name: 's3' })
    test.emulator.faults.add({
      fault: { kind: 'lost-answer' },
      on: ({ operation }) => operation === 'CompleteMultipartUpload',
      times: 1,
    })
    await store.put('s/large', largeFile())
    expect(test.emulator.stat(test.bucket, 's/large')?.sizeBytes).toBe(80 * MIB)
    expect(test.emulator.openUploads(test.bucket)).toEqual([])
  })

  it('that is gone at its completion fails when what is there is not its object', async () => {
    const store = new ObjectStore(await test.open(), { name: 's3' })
    await test.emulator.plant(test.bucket, 's/large', 'old')
    test.emulator.faults.add({
      fault: { kind: 'status', status: 404, code: 'NoSuchUpload' },
      on: ({ operation }) => operation === 'CompleteMultipartUpload',
    })
    await expect(store.put('s/large', largeFile())).rejects.toMatchObject({ code: 'UNAVAILABLE', retryable: true })
    expect(String(await test.emulator.read(test.bucket, 's/large'))).toBe('old')
  })

  it('whose completion fails inside an answer of 200 is repeated', async () => {
    const backend = await test.open()
    test.emulator.faults.add({
      fault: { kind: 'status', status: 200, code: 'InternalError' },
      on: ({ operation }) => operation === 'CompleteMultipartUpload',
      times: 1,
    })
    await backend.put('s/large', largeFile())
    expect(test.emulator.stat(test.bucket, 's/large')?.sizeBytes).toBe(80 * MIB)
  })

  it('that died with its process is aborted by the next one of this host, and nobody else loses theirs', async () => {
    const { accessKeyId, secretAccessKey } = EMULATOR_CREDENTIALS
    const theirs = await otherClient(test.emulator.url, accessKeyId, secretAccessKey).initiateNewMultipartUpload(
      test.bucket,
      's/other-host',
      {},
    )
    await killedInTheMiddle(largeFile(200))
    expect(test.emulator.openUploads(test.bucket)).toHaveLength(2)
    expect(notedUploads()).toHaveLength(1)
    const backend = await test.open()
    await backend.put('s/small', test.file('x'))
    await backend.close()
    expect(test.emulator.openUploads(test.bucket).map(({ uploadId }) => uploadId)).toEqual([theirs])
    expect(notedUploads()).toEqual([])
    expect(test.emulator.keys(test.bucket)).toEqual(['s/small'])
  })

  it('of a living process is left alone by another backend', async () => {
    const first = await test.open()
    const second = await test.open()
    let seen: Promise<void> | undefined
    await first.put('s/large', largeFile(), {
      onProgress: () => {
        seen ??= second.put('s/small', test.file('x')).then(() => second.close())
      },
    })
    await seen
    expect(test.emulator.stat(test.bucket, 's/large')?.sizeBytes).toBe(80 * MIB)
  })

  it('with parts too large for memory streams them, each anew when it is refused', async () => {
    const backend = await test.open({ part_size_mib: 16, checksums: 'when_supported' })
    const rule = { status: 503, code: 'SlowDown', kind: 'status' } as const
    test.emulator.faults.add({ fault: rule, on: ({ operation }) => operation === 'UploadPart', times: 2 })
    const content = Buffer.alloc(70 * MIB, 'all the parts differ, since this does not divide them evenly')
    await backend.put('s/large', test.file(content))
    expect((await test.emulator.read(test.bucket, 's/large'))?.equals(content)).toBe(true)
    const parts = test.emulator.requests.filter(({ operation }) => operation === 'UploadPart')
    expect(parts.map(({ headers }) => headers['content-length']).filter((length) => length === '6291456')).toHaveLength(
      1,
    )
    expect(parts).toHaveLength(5 + 2)
  })

  it('goes on without notes where the state directory can not be made', async () => {
    const warned: string[] = []
    const drop = (): void => undefined
    const logger = { debug: drop, info: drop, warn: (_: object, line: string) => void warned.push(line), error: drop }
    const backend = await test.open({ state_directory: join(test.file('a file'), 'below') }, {}, logger)
    await backend.put('s/large', largeFile())
    expect(warned).toEqual([expect.stringContaining('lifecycle rule')])
    expect(test.emulator.stat(test.bucket, 's/large')?.sizeBytes).toBe(80 * MIB)
  })
})
