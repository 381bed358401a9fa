import { execFileSync, spawnSync } from 'node:child_process'
import { closeSync, openSync, readFileSync } from 'node:fs'
import { readFile, stat, writeFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { ObjectStore } from '@nexus/objectstore'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createTestBucket, type TestBucket } from './open-bucket.ts'

let test: TestBucket
let fifo: string
let writer: number | undefined

beforeEach(() => {
  test = createTestBucket()
  fifo = test.freshPath()
  execFileSync('mkfifo', [fifo])
})

afterEach(async () => {
  release()
  await test.remove()
  if (writer !== undefined) closeSync(writer)
  writer = undefined
})

/** Lets the calls that hang go on. */
function release(): void {
  // For reading and writing, which does not wait for the other end.
  writer ??= openSync(fifo, 'r+')
}

describe('a bucket whose file calls never return', () => {
  it('does not hold up any other file work of the process', async () => {
    const backend = await test.open({}, { hang: { op: 'put', fifo } })
    const healthy = createTestBucket()
    const other = await healthy.open()
    const path = test.file('x')
    // More than libuv has threads.
    const puts = Array.from({ length: 12 }, (_, index) => backend.put(`k${index}`, path))
    const abandoned = Promise.allSettled(puts)
    for (let round = 0; round < 20; round++) {
      const local = test.freshPath()
      await writeFile(local, 'journal')
      expect((await stat(local)).size).toBe(7)
      expect(await readFile(local, 'utf8')).toBe('journal')
    }
    await other.put('k', path)
    expect((await other.list('')).map(({ key }) => key)).toEqual(['k'])
    await healthy.remove()
    release()
    expect((await abandoned).every(({ status }) => status === 'fulfilled')).toBe(true)
  })

  it('lets its callers go when they give up', async () => {
    const backend = await test.open({}, { hang: { op: 'list', fifo }, patienceMs: 20 })
    // More than are handed to the worker at once.
    const aborts = Array.from({ length: 100 }, () => new AbortController())
    const calls = aborts.map(({ signal }) => backend.list('', { signal }))
    const reason = new Error('deadline')
    setImmediate(() => aborts.forEach((abort) => abort.abort(reason)))
    for (const outcome of await Promise.allSettled(calls)) expect(outcome).toEqual({ status: 'rejected', reason })
    release()
    expect(await backend.list('')).toEqual([])
  })

  it('runs into the deadlines of the store above it', async () => {
    const backend = await test.open({}, { hang: { op: 'flush', fifo } })
    const store = new ObjectStore(backend, { name: 'fs', deadlines: { baseMs: 20, graceMs: 20 } })
    await expect(store.flush()).rejects.toMatchObject({ code: 'UNAVAILABLE', op: 'objectstore.flush' })
  })

  it('can be closed, in bounded time', async () => {
    const backend = await test.open({}, { hang: { op: 'delete', fifo }, patienceMs: 20 })
    const stuck = backend.delete('k').catch((error: unknown) => error)
    await backend.close()
    expect(await stuck).toMatchObject({ code: 'CLOSED' })
    await expect(backend.delete('k')).rejects.toMatchObject({ code: 'CLOSED' })
  })

  it('does not keep the process from ending', () => {
    const child = fileURLToPath(new URL('hanging-child.ts', import.meta.url))
    const marker = test.freshPath()
    const args = [...process.execArgv, child, test.bucket, test.file('x'), marker, fifo]
    const { signal, error } = spawnSync(process.execPath, args, { timeout: 50_000, killSignal: 'SIGTERM' })
    expect(error).toBeUndefined()
    // Node would wait for the thread for ever, so the process ends hard once everything else is done.
    expect(signal).toBe('SIGKILL')
    expect(readFileSync(marker, 'utf8')).toBe('all done')
  })
})
