import { createHash } from 'node:crypto'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ObjectStore, type Backend } from '@nexus/objectstore'
import {
  createMemoryBackend,
  withoutCapabilities,
  type Capability,
  type MemoryBackend,
} from '@nexus/objectstore-memory-test'
import { afterEach } from 'vitest'
import { ManualClock, settle } from '@nexus/host/testing'

/** A memory backend behind the type that the engine calls, both on one clock. */
export interface TestStore {
  backend: MemoryBackend
  clock: ManualClock
  store: ObjectStore
}

/** A store of its own, or another handle on the bucket of an earlier one. */
export function newStore({
  of,
  clock = new ManualClock(),
  absent = [],
}: { of?: MemoryBackend; clock?: ManualClock; absent?: readonly Capability[] } = {}): TestStore {
  const backend = of ?? createMemoryBackend({ clock })
  const seen: Backend = absent.length === 0 ? backend : withoutCapabilities(backend, absent)
  return { backend, clock, store: new ObjectStore(seen, { name: 'memory-test', clock }) }
}

const made: string[] = []

afterEach(() => {
  for (const dir of made.splice(0)) rmSync(dir, { recursive: true, force: true })
})

/** Memory, where there is such a thing: these tests look at what is on the disk after every sync, not at what syncs cost. */
const BASE = existsSync('/dev/shm') ? '/dev/shm' : tmpdir()

/** A directory that is removed after the test. */
export function newDir(name = 'durability'): string {
  const dir = mkdtempSync(join(BASE, `nexus-${name}-`))
  made.push(dir)
  return dir
}

/** The text of a stored object, or undefined. */
export function storedText(backend: MemoryBackend, key: string): string | undefined {
  return backend.objects.get(key)?.bytes.toString('utf8')
}

/** Plants an object. */
export function plant(backend: MemoryBackend, key: string, bytes: string | Uint8Array): void {
  backend.objects.set(key, { bytes: Buffer.from(bytes), modTime: new Date() })
}

/** Turns the event loop, without waiting for real time, until the condition holds. */
export async function until(condition: () => boolean, what = 'the condition'): Promise<void> {
  const givesUpAt = Date.now() + 20_000
  while (!condition()) {
    if (Date.now() > givesUpAt) throw new Error(`${what} did not come true`)
    await settle()
  }
}

/** Moves the clock in steps, letting real file operations finish in between, until the promise settles. */
export async function elapse<T>(promise: Promise<T>, clock: ManualClock, stepMs = 1_000): Promise<T> {
  const state = { done: false }
  const watched = promise.finally(() => {
    state.done = true
  })
  watched.catch(() => undefined)
  const givesUpAt = Date.now() + 30_000
  let quiet = 0
  while (!state.done) {
    if (Date.now() > givesUpAt) throw new Error('the promise did not settle')
    await new Promise((resolve) => {
      setTimeout(resolve, 1)
    })
    // File operations of the work in hand take a few turns of the loop; only then time may pass.
    if (++quiet < 5) continue
    quiet = 0
    await clock.advance(stepMs)
  }
  return watched
}

export function sha256(bytes: string | Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex')
}
