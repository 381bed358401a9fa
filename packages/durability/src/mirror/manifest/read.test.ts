import { mkdtempSync, rmdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createMemoryBackend, withoutCapabilities, type MemoryBackend } from '@nexus/objectstore-memory-test'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { storeOf } from '../../../test/durability-fixture.ts'
import { readCommittedManifest, readCommittedPair } from './read.ts'

const KEY = 'sessions/s1.manifest/manifest.json'
const HEAD = { _schema_version: 2, session_id: 's1', generation: 3, nonce: 'n', instance_id: 'i' }
const REST = {
  completed_at: 'x',
  key_prefix: 'sessions/s1',
  journal: { last_seq: 0 },
  objects: [],
  entries: {},
  dirs: {},
  links: {},
  unstored: [],
}

let scratchDir: string
let backend: MemoryBackend
beforeEach(() => {
  scratchDir = mkdtempSync(join(tmpdir(), 'nexus-manifest-'))
  backend = createMemoryBackend()
})
afterEach(() => {
  // Fails when a read has left something behind.
  rmdirSync(scratchDir)
})

function plant(value: unknown, key = KEY): void {
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  backend.objects.set(key, { bytes: Buffer.from(text), modTime: new Date() })
}

describe.each([
  ['with get', () => storeOf(backend)],
  ['without get', () => storeOf(withoutCapabilities(backend, ['get']))],
])('a committed manifest, read %s', (_how, open) => {
  it('is undefined when the store says that there is none', async () => {
    plant('{}', 'sessions/s1/files/a')
    plant({ ...HEAD, ...REST, session_id: 's10' }, 'sessions/s10.manifest/manifest.json')
    expect(await readCommittedManifest(open(), 's1', { scratchDir })).toBeUndefined()
    expect(await readCommittedPair(open(), 's1', { scratchDir })).toBeUndefined()
  })

  it('is read whole, and its head alone', async () => {
    plant({ ...HEAD, ...REST })
    expect(await readCommittedManifest(open(), 's1', { scratchDir })).toMatchObject(HEAD)
    expect(await readCommittedPair(open(), 's1', { scratchDir })).toEqual({
      generation: 3,
      nonce: 'n',
      instanceId: 'i',
    })
  })

  it('is never "none" when the store fails', async () => {
    plant({ ...HEAD, ...REST })
    for (const errorClass of ['temporary', 'permission', 'permanent'] as const) {
      backend.faults.failWhen(() => true, Object.assign(new Error('no'), { errorClass }))
      await expect(readCommittedManifest(open(), 's1', { scratchDir })).rejects.toMatchObject({
        code: { temporary: 'UNAVAILABLE', permission: 'PERMISSION', permanent: 'PRECONDITION' }[errorClass],
      })
      await expect(readCommittedPair(open(), 's1', { scratchDir })).rejects.toMatchObject({ key: expect.anything() })
      backend.faults.heal()
    }
  })

  it('that is damaged or of an unknown version is refused', async () => {
    plant('{"_schema_version":2,"session_id":"s1"')
    await expect(readCommittedManifest(open(), 's1', { scratchDir })).rejects.toMatchObject({
      code: 'CORRUPT',
      key: KEY,
    })
    await expect(readCommittedPair(open(), 's1', { scratchDir })).rejects.toMatchObject({ code: 'CORRUPT' })
    plant({ ...HEAD, ...REST, _schema_version: 7 })
    await expect(readCommittedManifest(open(), 's1', { scratchDir })).rejects.toMatchObject({ code: 'UNSUPPORTED' })
    await expect(readCommittedPair(open(), 's1', { scratchDir })).rejects.toMatchObject({ code: 'UNSUPPORTED' })
  })

  it('stops when its signal fires', async () => {
    plant({ ...HEAD, ...REST })
    const signal = AbortSignal.abort(new Error('enough'))
    await expect(readCommittedManifest(open(), 's1', { scratchDir, signal })).rejects.toThrow('enough')
  })
})

describe('the head of a manifest', () => {
  it('costs the same for any number of files', async () => {
    const objects = Array.from({ length: 50_000 }, (_, n) => `files/f${n}`)
    plant({ ...HEAD, completed_at: 'x', key_prefix: 'p', journal: { last_seq: 0 }, objects })
    const sizes: number[] = []
    const get = backend.get.bind(backend)
    backend.get = async (key, path, options) => {
      sizes.push(options?.length ?? Infinity)
      return get(key, path, options)
    }
    expect(await readCommittedPair(storeOf(backend), 's1', { scratchDir })).toMatchObject({ generation: 3, nonce: 'n' })
    expect(sizes).toEqual([2048])
  })

  it('of another writer, in another order, is found by reading it whole', async () => {
    plant({ ...REST, ...HEAD })
    expect(await readCommittedPair(storeOf(backend), 's1', { scratchDir })).toEqual({
      generation: 3,
      nonce: 'n',
      instanceId: 'i',
    })
  })

  it('of version 1 has no nonce', async () => {
    plant({ _schema_version: 1, session_id: 's1', generation: 2, objects: [] })
    expect(await readCommittedPair(storeOf(backend), 's1', { scratchDir })).toEqual({
      generation: 2,
      nonce: '',
      instanceId: '',
    })
  })
})
