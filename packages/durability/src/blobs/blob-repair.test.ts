import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { layoutOf } from '../../test/layout-of.ts'
import { describe, expect, it } from 'vitest'
import { newDir, newStore, plant, sha256, type TestStore } from '../../test/memory-store.ts'
import { blobPaths, repairBlob } from './blob-repair.ts'

const BYTES = 'a blob'
const DIGEST = sha256(BYTES)

function repair({ store }: TestStore, sessionDir: string): Promise<boolean> {
  return repairBlob(layoutOf(store, 's1'), DIGEST, { sessionDir, signal: new AbortController().signal })
}

function plantBlob({ backend }: TestStore, bytes = BYTES, meta: string | undefined = 'text/plain\n6\n'): void {
  plant(backend, `sessions/s1/${blobPaths(DIGEST).bin}`, bytes)
  if (meta !== undefined) plant(backend, `sessions/s1/${blobPaths(DIGEST).meta}`, meta)
}

describe('repairing a blob that was evicted', () => {
  it('brings content and media type back, and leaves nothing beside them', async () => {
    const test = newStore()
    plantBlob(test)
    const dir = newDir()
    expect(await repair(test, dir)).toBe(true)
    expect(readFileSync(join(dir, blobPaths(DIGEST).bin), 'utf8')).toBe(BYTES)
    expect(readFileSync(join(dir, blobPaths(DIGEST).meta), 'utf8')).toBe('text/plain\n6\n')
    expect(readdirSync(join(dir, 'blobs', DIGEST.slice(0, 2)))).toHaveLength(2)
  })

  it.each(['blobs', 'the shard'])('writes nothing through a link in place of %s', async (where) => {
    const test = newStore()
    plantBlob(test)
    const dir = newDir()
    const outside = newDir()
    const link = where === 'blobs' ? join(dir, 'blobs') : join(dir, 'blobs', DIGEST.slice(0, 2))
    mkdirSync(dirname(link), { recursive: true })
    symlinkSync(outside, link)
    await expect(repair(test, dir)).rejects.toMatchObject({ code: 'PRECONDITION' })
    expect(readdirSync(outside)).toEqual([])
  })

  it('does without a media type', async () => {
    const test = newStore()
    plant(test.backend, `sessions/s1/${blobPaths(DIGEST).bin}`, BYTES)
    expect(await repair(test, newDir())).toBe(true)
  })

  it('says that there is no such blob only when the store says so', async () => {
    const test = newStore()
    expect(await repair(test, newDir())).toBe(false)
    test.backend.faults.failWhen(() => true)
    await expect(repair(test, newDir())).rejects.toMatchObject({ code: 'UNAVAILABLE' })
  })

  it('can not repair from a backend without get', async () => {
    const test = newStore({ absent: ['get'] })
    plantBlob(test)
    expect(await repair(test, newDir())).toBe(false)
  })

  it('refuses bytes that do not have the digest, and leaves no trace of them', async () => {
    const test = newStore()
    plantBlob(test, 'other bytes')
    const dir = newDir()
    await expect(repair(test, dir)).rejects.toMatchObject({ code: 'CORRUPT' })
    expect(readdirSync(join(dir, 'blobs', DIGEST.slice(0, 2)))).toEqual([])
  })

  it('leaves no content without its media type when that one fails', async () => {
    const test = newStore()
    plantBlob(test)
    test.backend.faults.failWhen(({ key }) => key.endsWith('.meta'))
    const dir = newDir()
    await expect(repair(test, dir)).rejects.toMatchObject({ code: 'UNAVAILABLE' })
    expect(existsSync(join(dir, blobPaths(DIGEST).bin))).toBe(false)
  })
})
