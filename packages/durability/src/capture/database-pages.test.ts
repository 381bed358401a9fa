import { join } from 'node:path'
import { tempDir } from '@nexus/host/testing'
import { openStorageManager } from '@nexus/storage'
import { expect, it, onTestFinished } from 'vitest'
import { chunksOf, pagesOf } from './database-pages.ts'

const KIB = 1024

it('pages become whole chunks, joined where they touch, and cut at the end of the image', () => {
  const of = { pageSize: 4 * KIB, chunkBytes: 16 * KIB, sizeBytes: 66 * 4 * KIB }
  const pages = [
    { first: 2, count: 1 },
    { first: 4, count: 2 },
    { first: 40, count: 1 },
    { first: 66, count: 1 },
  ]
  expect(chunksOf(pages, of)).toEqual([
    { offset: 0, length: 32 * KIB },
    { offset: 144 * KIB, length: 16 * KIB },
    { offset: 256 * KIB, length: 8 * KIB },
  ])
})

it('pages that vanished change the chunk that the image now ends in, and no other', () => {
  const of = { pageSize: 4 * KIB, chunkBytes: 16 * KIB, sizeBytes: 6 * 4 * KIB }
  expect(chunksOf([{ first: 7, count: 30 }], of)).toEqual([{ offset: 16 * KIB, length: 8 * KIB }])
  expect(chunksOf([{ first: 7, count: 30 }], { ...of, sizeBytes: 4 * 4 * KIB })).toEqual([])
})

it('the image of a database is what SQLite serializes, with a page as its chunk where that is larger', async () => {
  const dir = tempDir()
  const storage = openStorageManager({ sessionDir: join(dir, 'session'), storageRoot: join(dir, 'root') })
  onTestFinished(() => storage.dispose())
  const { db, path } = storage.open('session', 'notes')
  db.exec("CREATE TABLE notes (body); INSERT INTO notes VALUES ('first')")
  const [image, ...others] = await pagesOf(storage, 16 * KIB).capture(join(dir, 'copies'), new Map(), undefined)
  expect(others).toEqual([])
  expect(image).toMatchObject({ livePath: path, pageSize: 4 * KIB, chunkBytes: 16 * KIB, full: true })
  const expected = db.serialize()
  expect(image?.sizeBytes).toBe(expected.length)
  expect(image?.changedRanges).toEqual([{ offset: 0, length: expected.length }])
  expect((await image?.read(0, expected.length + 1))?.equals(expected)).toBe(true)
  expect((await image?.read(100, 50))?.equals(expected.subarray(100, 150))).toBe(true)
  image?.release()
  await expect(image?.read(0, 1)).rejects.toMatchObject({ code: 'CLOSED' })
})
