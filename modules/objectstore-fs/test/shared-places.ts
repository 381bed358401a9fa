import fs from 'node:fs'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isNexusError } from '@nexus/objectstore'
import { createBucketContext, type BucketContext } from '../src/object/bucket-context.ts'
import { listObjects } from '../src/list.ts'
import { linkTemp, placeTemp } from '../src/object/name-object.ts'
import { findPlace, openObject, type OwedSyncs } from '../src/object/object-place.ts'
import { deleteObject } from '../src/remove.ts'
import type { StoredTemp } from '../src/object/stored-temp.ts'

/** One operation on keys whose places on disk exclude each other. */
export interface Step {
  verb: 'put' | 'create' | 'delete'
  key: string
}
export type Result = 'done' | boolean | 'unknown'
export type State = Readonly<Record<string, string>>

export const KEYS: readonly string[] = ['a', 'a/b', 'a/b/c']
export const STARTS: State[] = [{}, { a: '0' }, { 'a/b': '0' }, { a: '0', 'a/b': '0' }, { a: '0', 'a/b/c': '0' }]

// Thousands of small trees: about the order of system calls, not about the disk.
const root = mkdtempSync(join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'nexus-fs-places-'))
let runs = 0

/** Deletions that failed, which no step may. Deletions are asynchronous, so it is to be looked at once all is done. */
export const failures: unknown[] = []

export function removeBuckets(): void {
  rmSync(root, { recursive: true })
}

/** Thrown into a process that is to make no further file call. */
export class Stopped extends Error {}

function wasStopped(error: unknown): boolean {
  return error instanceof Error && (error instanceof Stopped || wasStopped(error.cause))
}

/** What a file call gave or threw. */
type Outcome = { value: unknown } | { error: unknown }

function attempt(call: () => unknown): Outcome {
  try {
    return { value: call() }
  } catch (error) {
    return { error }
  }
}

/** A process of its own on a bucket. */
export interface Process {
  context: BucketContext
  /** What its file calls gave so far. */
  outcomes: Outcome[]
}

/**
 * @param before runs before its n-th file call, and may throw {@link Stopped}
 * @param known its first calls are not made: they give this, as they did for a process that was stopped after them
 */
export function processOn(
  bucket: string,
  before: (call: number) => void = () => undefined,
  known: readonly Outcome[] = [],
): Process {
  const outcomes: Outcome[] = []
  const hooked = new Proxy(fs, {
    get(target, name: keyof typeof fs) {
      const real = target[name]
      if (typeof real !== 'function') return real
      return (...args: unknown[]): unknown => {
        const replayed = known[outcomes.length]
        if (replayed === undefined) before(outcomes.length)
        const outcome = replayed ?? attempt(() => (real as (...args: unknown[]) => unknown)(...args))
        outcomes.push(outcome)
        if ('error' in outcome) throw outcome.error
        return outcome.value
      }
    },
  })
  const options = { bucket, prefix: '', fsync: false, requireMount: false, fileMode: 0o600, directoryMode: 0o700 }
  return { context: createBucketContext(options, { fs: hooked }), outcomes }
}

/** The temp files of one operation. Made again with the same list, it finds them again. */
export type Temps = StoredTemp[]

function makeTemp(context: BucketContext, value: string): StoredTemp {
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

/** Runs a step to its end, or until its process is stopped. */
export function perform(process: Process, { verb, key }: Step, value: string, temps: Temps = []): Result {
  const { context } = process
  const segments = key.split('/')
  const owed: OwedSyncs = { directories: new Set(), entered: [] }
  let made = 0
  const nextTemp = (): StoredTemp => (temps[made++] ??= makeTemp(context, value))
  if (verb === 'delete') {
    deleteObject(context, segments).catch((error: unknown) => {
      if (!wasStopped(error)) failures.push(error)
    })
    return 'done'
  }
  if (verb === 'put') {
    while (placeTemp(context, nextTemp(), segments, owed) === undefined);
    return 'done'
  }
  const { path } = nextTemp()
  let result: Result
  try {
    result = linkTemp(context, temps[0] as StoredTemp, segments, owed)
  } catch (error) {
    if (!isNexusError(error, 'OUTCOME_UNKNOWN') || wasStopped(error)) throw error
    result = 'unknown'
  }
  fs.unlinkSync(path)
  return result
}

export function read({ context }: Process, key: string): string | undefined {
  const place = findPlace(context, key.split('/'))
  const object = place === undefined ? undefined : openObject(context, place)
  if (object === undefined) return undefined
  const value = fs.readFileSync(object.fd, 'utf8')
  fs.closeSync(object.fd)
  return value
}

/** Every object, read one after the other. */
export function readAll(bucket: string): State {
  const process = processOn(bucket)
  return Object.fromEntries(
    KEYS.flatMap((key) => {
      const value = read(process, key)
      return value === undefined ? [] : [[key, value]]
    }),
  )
}

const silentCall = { signal: new AbortController().signal, turnIsOver: false, progress: () => Promise.resolve() }

export async function listAll({ context }: Process): Promise<string[]> {
  const { objects } = await listObjects(context, [], '', silentCall)
  return objects.map(({ key }) => key).toSorted()
}

export function freshBucket(start: State): string {
  const bucket = join(root, String(runs++))
  fs.mkdirSync(bucket)
  // In this order `a` is moved aside by what comes below it.
  for (const key of KEYS) if (start[key] !== undefined) perform(processOn(bucket), { verb: 'put', key }, start[key])
  return bucket
}

/** What an object store would do. */
export function model(state: State, { verb, key }: Step, value: string): { state: State; result: Result } {
  if (verb === 'put') return { state: { ...state, [key]: value }, result: 'done' }
  if (verb === 'create') {
    return key in state ? { state, result: false } : { state: { ...state, [key]: value }, result: true }
  }
  const { [key]: _, ...rest } = state
  return { state: rest, result: 'done' }
}

/** Whether doing the steps in this order gives the results and the end that were seen. */
export function explains(start: State, order: readonly [Step, string, Result][], end: State): boolean {
  let state = start
  for (const [step, value, seen] of order) {
    const { state: next, result } = model(state, step, value)
    if (seen !== 'unknown' && seen !== result) return false
    state = next
  }
  return KEYS.every((key) => state[key] === end[key])
}
