import { describe, expect, it } from 'vitest'
import { CaptureCase } from './capture-case.ts'

const PAGE_SIZES = [512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536]
const VACUUMS = ['none', 'full', 'incremental'] as const

/** Numbers from 0 to 1 that are the same in each run. */
function randomFrom(seed: number): () => number {
  let state = seed
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}

describe.each(PAGE_SIZES)('with pages of %i bytes', (pageSize) => {
  it.each(VACUUMS)('and auto_vacuum %s, each image is what SQLite serializes', async (autoVacuum) => {
    const test = new CaptureCase({ pageSize, autoVacuum })
    const random = randomFrom(pageSize)
    const { db } = test
    const insert = db.prepare('INSERT INTO rows (body) VALUES (randomblob(?))')
    const grow = (): void => {
      for (let rows = 0; rows < 8; rows++) insert.run(Math.floor(random() * Math.min(3 * pageSize, 40_000)))
    }
    const steps = [
      grow,
      grow,
      () => db.exec('UPDATE rows SET body = randomblob(length(body)) WHERE id % 7 = 1'),
      () => db.exec('DELETE FROM rows WHERE id % 3 = 0'),
      () => db.exec('DELETE FROM rows WHERE id > (SELECT max(id) / 2 FROM rows)'),
      () => db.exec('VACUUM'),
      () => db.pragma('incremental_vacuum(3)'),
      () => db.pragma('wal_checkpoint(PASSIVE)'),
      () => db.pragma('wal_checkpoint(TRUNCATE)'),
    ]
    const kinds = new Set<string>()
    for (let round = 0; round < 8; round++) {
      for (let n = 0; n <= round % 3; n++) steps[Math.floor(random() * steps.length)]?.()
      kinds.add((await test.captureAndCompare()).kind)
    }
    expect(kinds).toContain('changed')
  })
})
