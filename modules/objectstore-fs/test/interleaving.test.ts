import assert from 'node:assert/strict'
import fs from 'node:fs'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isNexusError } from '@nexus/objectstore'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createBucketContext, type BucketContext } from '../src/bucket-context.ts'
import { listObjects } from '../src/list.ts'
import { linkTemp, placeTemp } from '../src/name-object.ts'
import { findPlace, openObject, type OwedSyncs } from '../src/object-place.ts'
import { deleteObject } from '../src/remove.ts'
import type { StoredTemp } from '../src/stored-temp.ts'

// Two and three processes on the keys `a`, `a/b` and `a/b/c`, whose places on disk exclude each other. One operation is
// stopped before each of its file calls in turn, others run to their end there, and the outcome must be that of some order
// in which they could have run one after the other.

interface Step {
  verb: 'put' | 'create' | 'delete'
  key: string
}
type Result = 'done' | boolean | 'unknown'
type State = Readonly<Record<string, string>>

const KEYS = ['a', 'a/b', 'a/b/c']
const STEPS: Step[] = [
  ...['a', 'a/b'].flatMap((key) => (['put', 'create', 'delete'] as const).map((verb) => ({ verb, key }))),
  { verb: 'put', key: 'a/b/c' },
]
const STARTS: State[] = [{}, { a: '0' }, { 'a/b': '0' }, { a: '0', 'a/b': '0' }, { a: '0', 'a/b/c': '0' }]

let root: string
let runs = 0

beforeAll(() => {
  // Thousands of small trees: about the order of system calls, not about the disk.
  root = mkdtempSync(join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'nexus-fs-interleaving-'))
})

afterAll(() => {
  rmSync(root, { recursive: true })
})

/** A process of its own on the bucket. `before` runs before its n-th file call. */
function processOn(bucket: string, before: (call: number) => void = () => undefined): BucketContext {
  let calls = 0
  const hooked = new Proxy(fs, {
    get(target, name: keyof typeof fs) {
      const real = target[name]
      if (typeof real !== 'function') return real
      return (...args: unknown[]): unknown => {
        before(calls++)
        return (real as (...args: unknown[]) => unknown)(...args)
      }
    },
  })
  const options = { bucket, prefix: '', fsync: false, requireMount: false, fileMode: 0o600, directoryMode: 0o700 }
  return createBucketContext(options, { fs: hooked })
}

function temp(context: BucketContext, value: string): StoredTemp {
  // Through the real file system: the temp file is nobody else's business, so no step worth stopping at.
  fs.mkdirSync(context.temps.path, { recursive: true })
  const path = join(context.temps.path, `t${runs++}`)
  fs.writeFileSync(path, value)
  return { path, fd: -1, ...versionOf(path), sizeBytes: value.length }
}

function versionOf(path: string): { ino: bigint; mtimeNs: bigint } {
  const { ino, mtimeNs } = fs.statSync(path, { bigint: true })
  return { ino, mtimeNs }
}

function perform(context: BucketContext, { verb, key }: Step, value: string): Result {
  const segments = key.split('/')
  const owed: OwedSyncs = { directories: new Set(), entered: [] }
  if (verb === 'delete') {
    let failure: unknown
    deleteObject(context, segments).catch((error: unknown) => (failure = error))
    assert.equal(failure, undefined)
    return 'done'
  }
  if (verb === 'put') {
    while (placeTemp(context, temp(context, value), segments, owed) === undefined);
    return 'done'
  }
  const created = temp(context, value)
  try {
    return linkTemp(context, created, segments, owed)
  } catch (error) {
    if (isNexusError(error, 'OUTCOME_UNKNOWN')) return 'unknown'
    throw error
  } finally {
    fs.unlinkSync(created.path)
  }
}

function read(context: BucketContext, key: string): string | undefined {
  const place = findPlace(context, key.split('/'))
  const object = place === undefined ? undefined : openObject(context, place)
  if (object === undefined) return undefined
  const value = fs.readFileSync(object.fd, 'utf8')
  fs.closeSync(object.fd)
  return value
}

function readAll(bucket: string): State {
  const context = processOn(bucket)
  return Object.fromEntries(
    KEYS.flatMap((key) => {
      const value = read(context, key)
      return value === undefined ? [] : [[key, value]]
    }),
  )
}

const silentCall = { signal: new AbortController().signal, progress: () => Promise.resolve() }

async function listAll(bucket: string): Promise<string[]> {
  const { objects } = await listObjects(processOn(bucket), [], '', silentCall)
  return objects.map(({ key }) => key).toSorted()
}

function freshBucket(start: State): string {
  const bucket = join(root, String(runs++))
  fs.mkdirSync(bucket)
  // In this order `a` is moved aside by what comes below it.
  for (const key of KEYS) if (start[key] !== undefined) perform(processOn(bucket), { verb: 'put', key }, start[key])
  return bucket
}

/** What an object store would do. */
function model(state: State, { verb, key }: Step, value: string): { state: State; result: Result } {
  if (verb === 'put') return { state: { ...state, [key]: value }, result: 'done' }
  if (verb === 'create') {
    return key in state ? { state, result: false } : { state: { ...state, [key]: value }, result: true }
  }
  const { [key]: _, ...rest } = state
  return { state: rest, result: 'done' }
}

/** Whether doing the steps in this order gives the results and the end that were seen. */
function explains(start: State, order: readonly [Step, string, Result][], end: State): boolean {
  let state = start
  for (const [step, value, seen] of order) {
    const { state: next, result } = model(state, step, value)
    if (seen !== 'unknown' && seen !== result) return false
    state = next
  }
  return KEYS.every((key) => state[key] === end[key])
}

/** Runs the outer step, the others inside it before its file calls `at[0]`, `at[1]`, ...; false when it made fewer. */
async function interleave(start: State, outer: Step, inner: readonly Step[], at: readonly number[]): Promise<boolean> {
  const bucket = freshBucket(start)
  const innerRuns: [Step, string, Result][] = []
  const context = processOn(bucket, (call) => {
    while (innerRuns.length < inner.length && at[innerRuns.length] === call) {
      const step = inner[innerRuns.length]
      const value = `inner ${innerRuns.length}`
      if (step !== undefined) innerRuns.push([step, value, perform(processOn(bucket), step, value)])
    }
  })
  const outerRun: [Step, string, Result] = [outer, 'outer', perform(context, outer, 'outer')]
  if (innerRuns.length < inner.length) return false
  const end = readAll(bucket)
  const orders = innerRuns.map((_, index) => [...innerRuns.slice(0, index), outerRun, ...innerRuns.slice(index)])
  orders.push([...innerRuns, outerRun])
  assert.ok(
    orders.some((order) => explains(start, order, end)),
    `from ${JSON.stringify(start)}, ${JSON.stringify([outerRun, ...innerRuns])} at ${at.join()} gave ${JSON.stringify(end)}`,
  )
  assert.deepEqual(await listAll(bucket), Object.keys(end).toSorted())
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
        const context = processOn(bucket, () => {
          seen.push(readAll(bucket))
          // The walk runs to its end here: nothing in it waits.
          listed.push(listAll(bucket))
        })
        perform(context, step, 'new')
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
