import assert from 'node:assert/strict'
import { rmSync } from 'node:fs'
import { afterAll, afterEach, describe, expect, it } from 'vitest'
import { raceEverywhere, STEPS } from './overtaking-race.ts'
import {
  failures,
  freshBucket,
  KEYS,
  listAll,
  model,
  perform,
  processOn,
  read,
  removeBuckets,
  STARTS,
  type State,
  type Step,
} from './shared-places.ts'

afterEach(() => {
  assert.deepEqual(failures, [])
})

afterAll(removeBuckets)

describe('two processes that overtake each other', () => {
  // One of the starts; overtaking.slow.test.ts has them all.
  it('leave what some order would have left', async () => {
    expect(await raceEverywhere({ a: '0' })).toBeGreaterThan(500)
  })
})

describe('a reader that is overtaken by a change', () => {
  const moments = async (look: (start: State, step: Step, at: number) => Promise<boolean>): Promise<number> => {
    let looks = 0
    for (const start of STARTS) {
      for (const step of STEPS) for (let at = 0; await look(start, step, at); at++) looks++
    }
    return looks
  }

  /** A process within whose n-th call the step is made. */
  const overtakenBy = (
    bucket: string,
    step: Step,
    at: number,
  ): { process: ReturnType<typeof processOn>; made: () => boolean } => {
    let made = false
    const process = processOn(bucket, (call) => {
      if (call !== at) return
      made = true
      perform(processOn(bucket), step, 'new')
    })
    return { process, made: () => made }
  }

  it('reads the object as it was or as it is', async () => {
    const looks = await moments(async (start, step, at) => {
      const after = model(start, step, 'new').state
      let any = false
      for (const key of KEYS) {
        const bucket = freshBucket(start)
        const { process, made } = overtakenBy(bucket, step, at)
        const value = read(process, key)
        any ||= made()
        assert.ok(value === start[key] || value === after[key], JSON.stringify({ start, step, at, key, value }))
        rmSync(bucket, { recursive: true })
      }
      return any
    })
    expect(looks).toBeGreaterThan(100)
  })

  it('lists everything that was there before and after, once', async () => {
    const looks = await moments(async (start, step, at) => {
      const bucket = freshBucket(start)
      const { process, made } = overtakenBy(bucket, step, at)
      const keys = await listAll(process)
      const after = model(start, step, 'new').state
      const told = JSON.stringify({ start, step, at, keys })
      for (const key of KEYS) if (key in start && key in after) assert.ok(keys.includes(key), told)
      for (const key of keys) assert.ok(key in start || key in after, told)
      assert.equal(new Set(keys).size, keys.length, told)
      rmSync(bucket, { recursive: true })
      return made()
    })
    expect(looks).toBeGreaterThan(100)
  })
})
