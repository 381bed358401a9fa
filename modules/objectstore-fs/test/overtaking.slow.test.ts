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
  read,
  readAll,
  removeBuckets,
  STARTS,
  Stopped,
  type Result,
  type State,
  type Step,
  type Temps,
} from './shared-places.ts'

// Two processes on keys whose places on disk exclude each other, where each overtakes the other: A is stopped in its midst,
// B begins, is stopped in its midst, A ends, B ends. Every pair of moments is tried.

const STEPS: Step[] = ['a', 'a/b'].flatMap((key) =>
  (['put', 'create', 'delete'] as const).map((verb): Step => ({ verb, key })),
)

afterEach(() => {
  assert.deepEqual(failures, [])
})

afterAll(removeBuckets)

/** A up to its call `stop`, B up to its call `overtaken`, then the rest of A, then the rest of B. */
interface Race {
  start: State
  a: Step
  b: Step
  stop: number
  overtaken: number
}

/** False when one of the two ended before its moment. */
async function race(each: Race): Promise<boolean> {
  const { start, a, b, stop, overtaken } = each
  const bucket = freshBucket(start)
  const temps: Temps = []
  let stopped = false
  // Once stopped it makes no call any more, its clean-up included: to the others it is only slow.
  const begun = processOn(bucket, (call) => {
    if (call >= stop) {
      stopped = true
      throw new Stopped()
    }
  })
  try {
    perform(begun, a, 'A', temps)
  } catch (error) {
    if (!stopped) throw error
  }
  if (!stopped) return false
  let aResult: Result | undefined
  let between: State = {}
  const other = processOn(bucket, (call) => {
    if (call !== overtaken || aResult !== undefined) return
    aResult = perform(processOn(bucket, undefined, begun.outcomes), a, 'A', temps)
    between = readAll(bucket)
  })
  const bResult = perform(other, b, 'B')
  if (aResult === undefined) return false

  const told = JSON.stringify({ ...each, aResult, bResult, between, end: readAll(bucket) })
  const runA = [a, 'A', aResult] as const satisfies [Step, string, Result]
  const runB = [b, 'B', bResult] as const satisfies [Step, string, Result]
  const end = readAll(bucket)
  assert.ok(explains(start, [runA, runB], end) || explains(start, [runB, runA], end), told)
  const onlyA = model(start, a, 'A').state
  const bFirst = model(model(start, b, 'B').state, a, 'A').state
  const aFirst = model(onlyA, b, 'B').state
  for (const key of KEYS) {
    assert.ok(
      [onlyA, bFirst, aFirst].some((state) => state[key] === between[key]),
      `${key} between: ${told}`,
    )
  }
  assert.deepEqual(await listAll(processOn(bucket)), Object.keys(end).toSorted(), told)
  rmSync(bucket, { recursive: true })
  return true
}

describe('two processes that overtake each other', () => {
  it.for(STARTS)('leave what some order would have left, from %o', async (start) => {
    let races = 0
    for (const a of STEPS) {
      for (const b of STEPS) {
        for (let stop = 0, more = true; more; stop++) {
          more = false
          for (let overtaken = 0; await race({ start, a, b, stop, overtaken }); overtaken++) {
            more = true
            races++
          }
        }
      }
    }
    expect(races).toBeGreaterThan(500)
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
