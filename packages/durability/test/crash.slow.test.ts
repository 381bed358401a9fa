import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { openStorageManager } from '@nexus/storage'
import { describe, expect, it } from 'vitest'
import { MACHINE_RECORD_FAILPOINTS } from '../src/boot/machine-record.ts'
import { RESOLVE_TREE_FAILPOINTS } from '../src/boot/replace-tree.ts'
import { SHARED_PULL_FAILPOINTS } from '../src/shared/shared-roots-pull.ts'
import { SHARED_STORE_FAILPOINTS } from '../src/shared/shared-roots-store.ts'
import { DirectoryBackend } from './directory-backend.ts'
import { openCrashRun } from './crash-run.ts'
import { newDir } from './memory-store.ts'

interface Place {
  bucket: string
  a: string
  b: string
  empty: string
}

function newPlace(): Place {
  const base = newDir('crash')
  return { bucket: join(base, 'bucket'), a: join(base, 'a'), b: join(base, 'b'), empty: join(base, 'empty') }
}

/** Runs a child; resolves with what it acknowledged before it was killed, or ended. */
async function runChild(...args: string[]): Promise<{ killed: boolean; acknowledged: string[] }> {
  const script = fileURLToPath(new URL('./crash-child.ts', import.meta.url))
  const child = spawn(process.execPath, [...process.execArgv, script, ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let output = ''
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()))
  const [code, signal] = (await once(child, 'close')) as [number | null, NodeJS.Signals | null]
  expect(signal === 'SIGKILL' || code === 0).toBe(true)
  return {
    killed: signal === 'SIGKILL',
    acknowledged: [...output.matchAll(/stored (\w+)/g)].map((match) => match[1] ?? ''),
  }
}

/** A session with one stored turn, whose process is gone without a word. */
async function storeFirstTurn({ bucket, a }: Place): Promise<void> {
  const run = await openCrashRun({ disk: a, bucket })
  await run.turn('t1', () => run.storage.open('app', 'nexus.budget').put('last', 't1'))
  await run.abandon()
  await run.storage.closeAll()
  await run.storage.dispose()
}

/** The row of the shared store as the bucket has it. */
async function storedRow(bucket: string, row: string): Promise<string | undefined> {
  const root = newDir('stored')
  const folder = join(root, 'plugins', 'nexus.budget')
  mkdirSync(folder, { recursive: true })
  await new DirectoryBackend(bucket).get('plugins/nexus.budget/store.db', join(folder, 'store.db'))
  const storage = openStorageManager({ sessionDir: newDir(), storageRoot: root })
  const value = storage.open('app', 'nexus.budget').get(row)?.toString()
  await storage.closeAll()
  await storage.dispose()
  return value
}

describe.each(MACHINE_RECORD_FAILPOINTS)('a kill at %s', (failpoint) => {
  it.each([1, 2, 3])('loses no turn that was acknowledged, and the tree stays the live one (pass %i)', async (pass) => {
    const place = newPlace()
    await storeFirstTurn(place)
    const { killed, acknowledged } = await runChild('turns', place.a, place.bucket, failpoint, String(pass))
    expect(killed).toBe(true)
    const fresh = await openCrashRun({ disk: place.empty, bucket: place.bucket })
    expect(fresh.turns()).toEqual(['t1', ...acknowledged])
    await fresh.durability.abandon()
    await fresh.storage.dispose()
    const warm = await openCrashRun({ disk: place.a, bucket: place.bucket })
    expect(warm.resolution).toMatchObject({ tree: 'local' })
    await warm.turn('after')
    expect(warm.durability.status().lastSnapshot).toMatchObject({ ok: true })
    await warm.stop()
  })
})

describe.each(RESOLVE_TREE_FAILPOINTS)('a kill at %s', (failpoint) => {
  it('loses neither the tree that is set aside nor the one that is restored', async () => {
    const place = newPlace()
    await storeFirstTurn(place)
    const other = await openCrashRun({ disk: place.b, bucket: place.bucket })
    await other.turn('t2')
    await other.stop()
    expect((await runChild('turns', place.a, place.bucket, failpoint)).killed).toBe(true)
    const resumed = await openCrashRun({ disk: place.a, bucket: place.bucket })
    expect(resumed.turns()).toEqual(['t1', 't2'])
    const aside = readdirSync(join(place.a, 'sessions')).filter((name) => name.startsWith('.stale-s1-'))
    expect(aside).toHaveLength(1)
    expect(readFileSync(join(place.a, 'sessions', aside[0] ?? '', 'conversation'), 'utf8')).toBe('t1\n')
    await resumed.stop()
  })
})

describe.each(SHARED_PULL_FAILPOINTS)('a kill at %s', (failpoint) => {
  it('leaves a shared store whole or missing, and never one that may not be stored again', async () => {
    const place = newPlace()
    await storeFirstTurn(place)
    expect((await runChild('turns', place.empty, place.bucket, failpoint)).killed).toBe(true)
    const resumed = await openCrashRun({ disk: place.empty, bucket: place.bucket })
    const storage = resumed.storage.open('app', 'nexus.budget')
    expect(storage.get('last')?.toString()).toBe('t1')
    await resumed.turn('after', () => storage.put('last', 'after'))
    expect(resumed.durability.status().refusedShared).toEqual([])
    await resumed.stop()
    expect(await storedRow(place.bucket, 'last')).toBe('after')
  })
})

describe.each(SHARED_STORE_FAILPOINTS)('a kill at %s', (failpoint) => {
  it.each([1, 2])('keeps the session, and lets this machine store its shared store again (pass %i)', async (pass) => {
    const place = newPlace()
    const { acknowledged } = await runChild('turns', place.a, place.bucket, failpoint, String(pass))
    const resumed = await openCrashRun({ disk: place.a, bucket: place.bucket })
    expect(resumed.turns().slice(0, acknowledged.length)).toEqual(acknowledged)
    await resumed.turn('after', () => resumed.storage.open('app', 'nexus.budget').put('last', 'after'))
    expect(resumed.durability.status().refusedShared).toEqual([])
    await resumed.stop()
    expect(await storedRow(place.bucket, 'last')).toBe('after')
  })
})

describe('processes of one machine that share a store', () => {
  it('lose no row of each other in the bucket, however they interleave', async () => {
    const place = newPlace()
    await storeFirstTurn(place)
    // Each has a session of its own; what they share is the storage root.
    const names = ['one', 'two', 'three']
    const ended = await Promise.all(names.map((name) => runChild('rows', place.a, place.bucket, name, '12')))
    expect(ended.map(({ killed }) => killed)).toEqual([false, false, false])
    expect(await Promise.all(names.map((name) => storedRow(place.bucket, name)))).toEqual(['12', '12', '12'])
  })
})
