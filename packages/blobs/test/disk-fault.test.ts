import fs from 'node:fs'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { Readable } from 'node:stream'
import { isNexusError } from '@nexus/errors'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { BlobStore, type BlobFileSystem } from '../src/index.ts'
import { scenarioBlobs, sha256Of } from './scenario.ts'

let root: string

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'nexus-blob-fault-'))
})

afterEach(() => {
  rmSync(root, { recursive: true, force: true })
})

const CALLS = ['openSync', 'writeSync', 'mkdirSync', 'renameSync', 'write', 'fdatasync', 'fsync', 'read'] as const

/** A disk whose n-th mutating call (0 is the first) fails with `code`; `count` tells how many there were. */
function faultyDisk(failing: number, code: string): { fs: BlobFileSystem; count: () => number } {
  let calls = 0
  const faulty: Record<string, unknown> = { ...fs }
  for (const name of CALLS) {
    const real = fs[name] as (...args: unknown[]) => unknown
    faulty[name] = (...args: unknown[]): unknown => {
      if (calls++ !== failing) return real(...args)
      const error = Object.assign(new Error(`${code}: injected, ${name}`), { code, syscall: name })
      const done = args.at(-1)
      if (typeof done !== 'function') throw error
      setImmediate(done as (error: Error) => void, error)
      return undefined
    }
  }
  return { fs: faulty as unknown as BlobFileSystem, count: () => calls }
}

function refuse(): never {
  throw Object.assign(new Error('EROFS'), { code: 'EROFS', syscall: 'futimes' })
}

async function runScenario(
  dir: string,
  disk: BlobFileSystem,
): Promise<{ acknowledged: Set<string>; errors: unknown[] }> {
  const store = BlobStore.open(dir, { fs: disk })
  const acknowledged = new Set<string>()
  const errors: unknown[] = []
  for (const { data, mediaType, streamed } of scenarioBlobs.slice(0, 4)) {
    try {
      acknowledged.add((await store.put(streamed ? Readable.from([data]) : data, mediaType)).sha256)
    } catch (error) {
      errors.push(error)
    }
  }
  await store.flush()
  return { acknowledged, errors }
}

describe('a disk that fails', () => {
  it.each(['ENOSPC', 'EIO', 'EMFILE'])(
    'with %s at any one call costs that put only, and leaves nothing behind',
    async (code) => {
      const probe = faultyDisk(-1, code)
      await runScenario(join(root, 'probe'), probe.fs)
      const total = probe.count()
      expect(total).toBeGreaterThan(30)
      for (let failing = 0; failing < total; failing++) {
        const dir = join(root, String(failing))
        const { acknowledged, errors } = await runScenario(dir, faultyDisk(failing, code).fs)
        expect(errors.length).toBeLessThanOrEqual(1)
        for (const error of errors) {
          expect(isNexusError(error, 'LOCAL_IO')).toBe(true)
          expect(error).toMatchObject({ op: 'blobs.put', cause: { code } })
        }
        const names = fs.existsSync(dir) ? readdirSync(dir, { recursive: true, encoding: 'utf8' }) : []
        expect(names.filter((name) => name.includes('.nexus-tmp-'))).toEqual([])
        for (const name of names.filter((one) => one.endsWith('.bin'))) {
          expect(sha256Of(readFileSync(join(dir, name)))).toBe(basename(name, '.bin'))
        }
        const store = BlobStore.open(dir)
        for (const sha256 of acknowledged) expect(await store.has(sha256)).toBe(true)
      }
    },
  )

  it('and mends is taken up again by the same store', async () => {
    let broken = true
    const disk = {
      ...fs,
      fsync: (fd: number, done: fs.NoParamCallback) => {
        if (broken) setImmediate(done, Object.assign(new Error('EIO'), { code: 'EIO', syscall: 'fsync' }))
        else fs.fsync(fd, done)
      },
    } as unknown as BlobFileSystem
    const store = BlobStore.open(join(root, 'blobs'), { fs: disk })
    await expect(store.put(Buffer.from('x'))).rejects.toMatchObject({ code: 'LOCAL_IO' })
    await expect(store.put(Buffer.from('x'))).rejects.toMatchObject({ code: 'LOCAL_IO' })
    broken = false
    await store.put(Buffer.from('x'))
    expect(await store.verify()).toMatchObject({ blobs: 1 })
  })

  it('leaves a read-only store readable', async () => {
    const dir = join(root, 'blobs')
    const { sha256 } = await BlobStore.open(dir).put(Buffer.from('x'))
    const store = BlobStore.open(dir, { fs: { ...fs, futimesSync: refuse } })
    expect((await store.get(sha256)).data.toString()).toBe('x')
  })
})
