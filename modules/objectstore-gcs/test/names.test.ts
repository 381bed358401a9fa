import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { isInvalidKeyError } from '@nexus/objectstore'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { freshDirectory, openTestBucket, type TestBucket } from './test-bucket.ts'

let bucket: TestBucket

beforeEach(async () => {
  bucket = await openTestBucket()
})

afterEach(() => bucket.remove())

describe('names', () => {
  it('with every awkward character come back as they were, and are not encoded in the bucket', async () => {
    const backend = await bucket.open({ prefix: 'p' })
    const names = [
      'a\tb',
      'a\u0004b',
      'a&b',
      'a+b',
      'a b',
      'a%2Bb',
      'a%2Fb',
      'a#b',
      'a?b',
      'a=b;c',
      "a'b",
      '\u{1f600}',
      '..c',
      'a..b',
    ]
    for (const name of names) await backend.put(`s/${name}`, bucket.file(name))
    expect((await bucket.client.keys()).toSorted()).toEqual(names.map((name) => `p/s/${name}`).toSorted())
    const directory = freshDirectory(bucket)
    await backend.hydrate('s', directory)
    expect(readdirSync(directory).toSorted()).toEqual(names.toSorted())
    for (const name of names) expect(readFileSync(join(directory, name), 'utf8')).toBe(name)
    for (const name of names) await backend.delete(`s/${name}`)
    expect(await bucket.client.keys()).toEqual([])
  })

  it.each(['a\nb', 'a\rb', 'x'.repeat(1025), '.well-known/acme-challenge/x', 'a\\b', '../x', '/x', 'a\0b'])(
    'that the store has not are refused by name before it is asked: %j',
    async (key) => {
      const backend = await bucket.open()
      const error: unknown = await backend.put(key, bucket.file('x')).catch((thrown: unknown) => thrown)
      expect(isInvalidKeyError(error)).toBe(true)
      expect(bucket.emulator.log).toEqual([])
    },
  )

  it('count the prefix of the store against the longest', async () => {
    const backend = await bucket.open({ prefix: 'p'.repeat(1000) })
    await backend.put('x'.repeat(23), bucket.file('x'))
    await expect(backend.put('x'.repeat(24), bucket.file('x'))).rejects.toThrow('1025 bytes')
  })

  it('of console placeholders are no files', async () => {
    const backend = await bucket.open()
    for (const name of ['sessions/a/', 'sessions/a/files/']) await bucket.client.plant(name, '')
    await backend.put('sessions/a/files/f', bucket.file('x'))
    expect((await backend.list('sessions')).map(({ key }) => key)).toEqual(['sessions/a/files/f'])
    const directory = freshDirectory(bucket)
    await backend.hydrate('sessions/a', directory)
    expect(readFileSync(join(directory, 'files', 'f'), 'utf8')).toBe('x')
  })

  it.each(['s/../x', 's/a/../../x', 's//x', 's/./x', 's/a\\x', 's//etc/x'])(
    'that were planted to write elsewhere fail the whole hydration, named: %j',
    async (name) => {
      const backend = await bucket.open()
      await bucket.client.plant('s/honest', 'x')
      await bucket.client.plant(name, 'evil')
      const directory = freshDirectory(bucket)
      await expect(backend.hydrate('s', directory)).rejects.toMatchObject({ code: 'CORRUPT', key: name })
      expect(readdirSync(directory)).toEqual([])
      expect(existsSync(join(directory, '..', 'x'))).toBe(false)
    },
  )
})

describe('a listing', () => {
  it('of 2501 objects is whole, and so is their hydration', async () => {
    const backend = await bucket.open()
    const path = bucket.file('x')
    const keys = Array.from({ length: 2501 }, (_, i) => `s/${i}`)
    await Promise.all(keys.map((key) => backend.put(key, path)))
    const seen: number[] = []
    const listed = await backend.list('s', { onProgress: ({ objects }) => seen.push(objects) })
    expect(new Set(listed.map(({ key }) => key))).toEqual(new Set(keys))
    expect(seen).toEqual([1000, 2000, 2501])
    const directory = freshDirectory(bucket)
    await backend.hydrate('s', directory)
    expect(readdirSync(directory)).toHaveLength(2501)
  })

  it('that breaks on its second page fails instead of being short', async () => {
    const backend = await bucket.open()
    const small = await openTestBucket({ pageSize: 2 })
    try {
      const other = await small.open()
      for (const name of ['a', 'b', 'c']) await small.client.plant(name, 'x')
      small.emulator.faults.add({ fault: { kind: 'status', status: 500, code: 'internalError' }, after: 1 })
      await expect(other.list('')).rejects.toThrow('500')
    } finally {
      await small.remove()
    }
    expect(await backend.list('')).toEqual([])
  })
})
