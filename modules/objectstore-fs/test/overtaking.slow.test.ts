import assert from 'node:assert/strict'
import { afterAll, afterEach, describe, expect, it } from 'vitest'
import { raceEverywhere } from './overtaking-race.ts'
import { failures, removeBuckets, STARTS } from './shared-places.ts'

afterEach(() => {
  assert.deepEqual(failures, [])
})

afterAll(removeBuckets)

describe('two processes that overtake each other', () => {
  it.for(STARTS)('leave what some order would have left, from %o', async (start) => {
    expect(await raceEverywhere(start)).toBeGreaterThan(500)
  })
})
