import assert from 'node:assert/strict'
import { rmSync } from 'node:fs'
import {
  explains,
  freshBucket,
  KEYS,
  listAll,
  model,
  perform,
  processOn,
  readAll,
  Stopped,
  type Result,
  type State,
  type Step,
  type Temps,
} from './shared-places.ts'

// Two processes on keys whose places on disk exclude each other, where each overtakes the other: A is stopped in its midst,
// B begins, is stopped in its midst, A ends, B ends. Every pair of moments is tried.

export const STEPS: Step[] = ['a', 'a/b'].flatMap((key) =>
  (['put', 'create', 'delete'] as const).map((verb): Step => ({ verb, key })),
)

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

/**
 * Lets every pair of steps overtake each other at every pair of moments.
 *
 * @returns how many races that were
 */
export async function raceEverywhere(start: State): Promise<number> {
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
  return races
}
