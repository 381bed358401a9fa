import assert from 'node:assert/strict'
import { rmSync } from 'node:fs'
import { afterAll, afterEach, describe, expect, it } from 'vitest'
import {
  explains,
  failures,
  freshBucket,
  KEYS,
  listAll,
  model,
  perform,
  processOn,
  readAll,
  removeBuckets,
  STARTS,
  type Result,
  type State,
  type Step,
} from './shared-places.ts'

// Two and three processes on the keys `a`, `a/b` and `a/b/c`, whose places on disk exclude each other. One operation is
// stopped before each of its file calls in turn, others run to their end there, and the outcome must be that of some order
// in which they could have run one after the other.

const STEPS: Step[] = [
  ...['a', 'a/b'].flatMap((key) => (['put', 'create', 'delete'] as const).map((verb) => ({ verb, key }))),
  { verb: 'put', key: 'a/b/c' },
]

afterEach(() => {
  assert.deepEqual(failures, [])
})

afterAll(removeBuckets)

/** Runs the outer step, the others inside it before its file calls `at[0]`, `at[1]`, ...; false when it made fewer. */
async function interleave(start: State, outer: Step, inner: readonly Step[], at: readonly number[]): Promise<boolean> {
  const bucket = freshBucket(start)
  const innerRuns: [Step, string, Result][] = []
  const process = processOn(bucket, (call) => {
    while (innerRuns.length < inner.length && at[innerRuns.length] === call) {
      const step = inner[innerRuns.length]
      const value = `inner ${innerRuns.length}`
      if (step !== undefined) innerRuns.push([step, value, perform(processOn(bucket), step, value)])
    }
  })
  const outerRun: [Step, string, Result] = [outer, 'outer', perform(process, outer, 'outer')]
  if (innerRuns.length < inner.length) return false
  const end = readAll(bucket)
  const orders = innerRuns.map((_, index) => [...innerRuns.slice(0, index), outerRun, ...innerRuns.slice(index)])
  orders.push([...innerRuns, outerRun])
  assert.ok(
    orders.some((order) => explains(start, order, end)),
    `from ${JSON.stringify(start)}, ${JSON.stringify([outerRun, ...innerRuns])} at ${at.join()} gave ${JSON.stringify(end)}`,
  )
  assert.deepEqual(await listAll(processOn(bucket)), Object.keys(end).toSorted())
  rmSync(bucket, { recursive: true })
  return true
}

describe('an object whose path is also a directory', () => {
  it('is seen whole, old or new, by a reader at any moment of any change', async () => {
    let looks = 0
    for (const start of STARTS) {
      for (const step of STEPS) {
        const bucket = freshBucket(start)
        const after = model(start, step, 'new').state
        const seen: State[] = []
        const listed: Promise<string[]>[] = []
        const process = processOn(bucket, () => {
          seen.push(readAll(bucket))
          // The walk runs to its end here: nothing in it waits.
          listed.push(listAll(processOn(bucket)))
        })
        perform(process, step, 'new')
        seen.push(readAll(bucket))
        for (const state of seen) {
          for (const key of KEYS) {
            const fine = state[key] === start[key] || state[key] === after[key]
            assert.ok(fine, `${key} read as ${state[key]} during ${JSON.stringify(step)} from ${JSON.stringify(start)}`)
            looks++
          }
        }
        const untouched = KEYS.filter((key) => key in start && key in after)
        for (const keys of await Promise.all(listed)) {
          for (const key of untouched) assert.ok(keys.includes(key), `${key} was missing from a listing`)
          assert.equal(new Set(keys).size, keys.length, 'a listing held a key twice')
        }
        assert.deepEqual(seen.at(-1), after)
      }
    }
    expect(looks).toBeGreaterThan(500)
  })

  it('is changed by two processes at once as if one came after the other', async () => {
    let tried = 0
    for (const start of STARTS) {
      for (const outer of STEPS) {
        for (const inner of STEPS) {
          for (let at = 0; await interleave(start, outer, [inner], [at]); at++) tried++
        }
      }
    }
    expect(tried).toBeGreaterThan(1000)
  })

  it('is changed by three processes at once as if one came after the other', async () => {
    let tried = 0
    for (const start of STARTS) {
      for (const outer of STEPS) {
        for (const first of STEPS) {
          for (const second of STEPS) tried += await interleaveThree(start, outer, [first, second])
        }
      }
    }
    expect(tried).toBeGreaterThan(1000)
  })
})

/** File calls of the longest step. */
const MOST_CALLS = 26
let seed = 1

/** Tries moments for both inner steps: two at random, which together are thousands, or all of them, which takes minutes. */
async function interleaveThree(start: State, outer: Step, inner: readonly Step[]): Promise<number> {
  let tried = 0
  if (process.env['NEXUS_EXHAUSTIVE'] === undefined) {
    for (let number = 0; number < 2; number++) {
      seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648
      const at = (seed >> 8) % 8
      if (await interleave(start, outer, inner, [at, at + ((seed >> 16) % 8)])) tried++
    }
    return tried
  }
  for (let at = 0; at < MOST_CALLS; at++) {
    for (let later = at; await interleave(start, outer, inner, [at, later]); later++) tried++
  }
  return tried
}
