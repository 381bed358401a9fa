import { mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { objectStoreConfig, ObjectStore, silentLogger } from '@nexus/objectstore'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { openS3Backend, type S3Backend } from '../src/driver.ts'
import { type EmulatedBucket, openEmulatedBucket } from './emulated-bucket.ts'
import { describeOnGateway, gateway } from './gateway.ts'

let test: EmulatedBucket

beforeEach(async () => {
  test = await openEmulatedBucket()
})

afterEach(() => test.remove())

async function keysOf(backend: S3Backend, prefix: string): Promise<string[]> {
  return (await backend.list(prefix)).map(({ key }) => key).toSorted()
}

function freshDirectory(): string {
  const path = test.freshPath()
  mkdirSync(path)
  return path
}

describe('2,501 objects', () => {
  it('are all listed and all hydrated, page after page', async () => {
    const backend = await test.open()
    const keys = Array.from({ length: 2501 }, (_, i) => `s/files/${String(i).padStart(5, '0')}`)
    for (const key of keys) await test.emulator.plant(test.bucket, key, key)
    expect(await keysOf(backend, 's')).toEqual(keys)
    const destination = freshDirectory()
    await backend.hydrate('s', destination)
    expect(readdirSync(join(destination, 'files'))).toHaveLength(2501)
    expect(readFileSync(join(destination, 'files', '02500'), 'utf8')).toBe('s/files/02500')
  })

  it('are never taken for fewer: a page that fails fails the listing', async () => {
    const store = new ObjectStore(await test.open({ max_attempts: 1 }), { name: 's3' })
    for (let i = 0; i < 1500; i++) await test.emulator.plant(test.bucket, `s/${i}`, '')
    test.emulator.faults.add({
      fault: { kind: 'status', status: 500, code: 'InternalError' },
      on: ({ operation }) => operation === 'ListObjectsV2',
      after: 1,
    })
    await expect(store.list('s')).rejects.toMatchObject({ code: 'UNAVAILABLE' })
  })
})

/** Names that break listings, URLs or XML somewhere. */
const AWKWARD = [
  'a+b',
  'a b',
  'a%2Bb',
  'a%20b',
  'new\nline',
  'return\rhere',
  'tab\there',
  'end of transmission \u0004',
  'bell \u0007 and escape \u001b',
  '&amp;',
  '<tag>',
  'hash#tag',
  'question?mark',
  'quote"\'',
  'e\u0301 and \u00e9',
  'emoji \u{1f600}',
  '..c',
  'a..b',
  '~tilde',
  "!'()*",
  'x'.repeat(200),
]

async function roundTrip(backend: S3Backend): Promise<void> {
  await Promise.all(AWKWARD.map((name) => backend.put(`s/${name}/f`, test.file(name))))
  expect(await keysOf(backend, 's')).toEqual(AWKWARD.map((name) => `s/${name}/f`).toSorted())
  const destination = freshDirectory()
  await backend.hydrate('s', destination)
  for (const name of AWKWARD) {
    expect(readFileSync(join(destination, name, 'f'), 'utf8')).toBe(name)
    expect(await keysOf(backend, `s/${name}`)).toEqual([`s/${name}/f`])
    await backend.delete(`s/${name}/f`)
  }
  expect(await keysOf(backend, '')).toEqual([])
}

describe('awkward names', () => {
  it('stay distinct and come back as they were, on the emulator', async () => {
    await roundTrip(await test.open())
    const listings = test.emulator.requests.filter(({ operation }) => operation === 'ListObjectsV2')
    // XML has no way to write some of these names.
    expect(new Set(listings.map(({ query }) => query.get('encoding-type')))).toEqual(new Set(['url']))
  })
})

describeOnGateway('awkward names on a real store', () => {
  it('stay distinct and come back as they were', async () => {
    const { endpoint = '', credentialsFile = '' } = gateway ?? {}
    const bucket = (await gateway?.newBucket()) ?? ''
    const config = objectStoreConfig({ backend: 's3', bucket, endpoint, credentialsFile })
    const backend = await openS3Backend(config, { logger: silentLogger })
    await roundTrip(backend)
    await backend.close()
  })
})

describe('a listing that lags', () => {
  it('fails hydration with the key of an object that is gone, and takes a replaced one as it is now', async () => {
    const store = new ObjectStore(await test.open(), { name: 's3' })
    await test.emulator.plant(test.bucket, 's/replaced', 'old')
    await test.emulator.plant(test.bucket, 's/stays', 'x')
    const thaw = test.emulator.freezeListings(test.bucket)
    await store.put('s/replaced', test.file('new and longer'))
    const destination = freshDirectory()
    await store.hydrate('s', destination)
    expect(readFileSync(join(destination, 'replaced'), 'utf8')).toBe('new and longer')
    await store.delete('s/stays')
    await expect(store.hydrate('s', freshDirectory())).rejects.toMatchObject({ code: 'NOT_FOUND', key: 's/stays' })
    thaw()
    await store.hydrate('s', freshDirectory())
  })
})

describe('folder placeholders of consoles', () => {
  it('are left out of listings and hydration, that of the prefix itself included', async () => {
    const backend = await test.open({}, { prefix: 'prod' })
    for (const key of ['prod/', 'prod/sessions/', 'prod/sessions/s1/', 'prod/sessions/s1/files/']) {
      await test.emulator.plant(test.bucket, key, '')
    }
    await test.emulator.plant(test.bucket, 'prod/sessions/s1/files/a', 'content')
    expect(await keysOf(backend, '')).toEqual(['sessions/s1/files/a'])
    expect(await keysOf(backend, 'sessions/s1')).toEqual(['sessions/s1/files/a'])
    const destination = freshDirectory()
    await backend.hydrate('sessions/s1', destination)
    expect(readFileSync(join(destination, 'files', 'a'), 'utf8')).toBe('content')
  })
})

describe('keys at the limit', () => {
  it('of 1,024 bytes with the prefix round-trip; a longer one is refused by name before a request', async () => {
    const backend = await test.open({}, { prefix: 'prod' })
    const longest = `s/${'\u00e9'.repeat(508)}x`
    expect(Buffer.byteLength(`prod/${longest}`)).toBe(1024)
    await backend.put(longest, test.file('x'))
    expect(await keysOf(backend, 's')).toEqual([longest])
    test.emulator.requests.length = 0
    const calls = [
      backend.put(`${longest}y`, test.file('x')),
      backend.putIfAbsent(`${longest}y`, test.file('x')),
      backend.get(`${longest}y`, test.freshPath()),
      backend.delete(`${longest}y`),
    ]
    const reason = { name: 'InvalidKeyError', key: `${longest}y` }
    expect(await Promise.allSettled(calls)).toMatchObject(calls.map(() => ({ status: 'rejected', reason })))
    expect(test.emulator.requests.filter(({ key }) => key.startsWith('prod/s/'))).toEqual([])
  })
})

describe('keys that lead outside', () => {
  it.each(['s/../x', 's//etc/x', 's/a/../../x', 's/C:\\x', 's/./x', 's/a\0b'])(
    'fail hydration, named: %j',
    async (key) => {
      const store = new ObjectStore(await test.open(), { name: 's3' })
      await test.emulator.plant(test.bucket, 's/honest', 'x')
      await test.emulator.plant(test.bucket, key, 'evil')
      const destination = freshDirectory()
      await expect(store.hydrate('s', destination)).rejects.toMatchObject({ code: 'CORRUPT', key })
      expect(readdirSync(destination)).toEqual([])
    },
  )

  it('are refused by every method before a request is sent', async () => {
    const backend = await test.open()
    for (const key of ['../x', '/etc/x', 'a/../../x', 'C:\\x', 'a\0b', '']) {
      const calls = [
        backend.put(key, test.file('x')),
        backend.putIfAbsent(key, test.file('x')),
        backend.get(key, test.freshPath()),
        backend.delete(key),
      ]
      const reason = { name: 'InvalidKeyError' }
      expect(await Promise.allSettled(calls)).toMatchObject(calls.map(() => ({ status: 'rejected', reason })))
    }
    expect(test.emulator.requests).toEqual([])
  })
})
