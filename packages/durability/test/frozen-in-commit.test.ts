import { describe, expect, it } from 'vitest'
import { SNAPSHOT_FAILPOINTS } from '../src/commit/snapshot.ts'
import { storedText, until } from './memory-store.ts'
import { TestHost, type HostOptions } from './test-host.ts'

const MANIFEST = 'sessions/s1.manifest/manifest.json'
const MARKER = 'sessions/s1.snapshot.json'

interface StoredManifest {
  generation: number
  instance_id: string
  objects: string[]
}

function manifestOf(host: TestHost): StoredManifest {
  return JSON.parse(storedText(host.backend, MANIFEST) ?? '{}') as StoredManifest
}

/** A host whose next snapshot stands still at a failpoint until it is let go. */
async function freezing(
  at: string,
  options: HostOptions = {},
): Promise<{ host: TestHost; turn: Promise<void>; thaw: () => void }> {
  let thaw: (() => void) | undefined
  let armed = false
  const failpoint = (name: string): Promise<void> | void => {
    if (!armed || name !== at) return undefined
    armed = false
    return new Promise((resolve) => {
      thaw = resolve
    })
  }
  const host = await TestHost.boot({ ...options, failpoint })
  await host.turn('t1', () => host.write('files/a.txt', 'one'))
  armed = true
  const turn = host.turn('t2-of-a', () => {
    host.write('files/a.txt', 'two of a')
    host.storage.open('session', 'nexus.memory').put('k', 'a')
  })
  await until(() => thaw !== undefined, at)
  return { host, turn, thaw: () => thaw?.() }
}

/** Another host takes the session over and has two turns stored. */
async function overtakenBy(host: TestHost, isAlive: boolean): Promise<TestHost> {
  const other = await TestHost.boot({ backend: host.backend, clock: host.clock })
  await other.turn('t2-of-b', () => other.write('files/b.txt', 'b'))
  await other.turn('t3-of-b')
  if (!isAlive) await other.stop()
  return other
}

const committedBy = SNAPSHOT_FAILPOINTS.indexOf('snapshot:before-manifest')
const BEFORE_MANIFEST = SNAPSHOT_FAILPOINTS.slice(0, committedBy + 1)
const AFTER_MANIFEST = SNAPSHOT_FAILPOINTS.slice(committedBy + 1)
const BEFORE_OVERWRITING = BEFORE_MANIFEST.slice(0, BEFORE_MANIFEST.indexOf('snapshot:before-overwriting') + 1)
const CASES = [true, false]

describe.each(BEFORE_MANIFEST)('a host that stood still at %s while another one committed', (at) => {
  it.each(CASES)('puts no manifest, and has ended (the other lives: %s)', async (isAlive) => {
    const { host: a, turn, thaw } = await freezing(at)
    const b = await overtakenBy(a, isAlive)
    const theirs = manifestOf(a)
    const calls = a.backend.faults.calls.length
    await a.clock.advance(2_000)
    thaw()
    await turn
    expect(manifestOf(a)).toEqual(theirs)
    expect(a.seen('session.owner.lost')).toMatchObject([
      { our_generation: 1, their_generation: theirs.generation, their_instance_id: theirs.instance_id },
    ])
    expect(a.durability.status()).toMatchObject({ lost: true })
    const puts = a.backend.faults.calls.slice(calls).filter(({ op }) => op === 'put')
    expect(puts).toEqual([])
    await expect(a.durability.snapshot('request')).rejects.toMatchObject({ code: 'FENCED' })
    await a.stop()
    expect(manifestOf(a)).toEqual(theirs)
    if (isAlive) await b.turn('t4-of-b')
    expect(b.seen('session.owner.lost')).toEqual([])
    await b.kill()
  })
})

it('covers the points before anything is overwritten and those between that and the commit', () => {
  expect(BEFORE_OVERWRITING.length).toBeGreaterThan(4)
  expect(BEFORE_MANIFEST.length).toBeGreaterThan(BEFORE_OVERWRITING.length)
  expect(AFTER_MANIFEST.length).toBeGreaterThan(2)
})

describe.each(AFTER_MANIFEST)('a host that stood still at %s, its commit put', (at) => {
  it('hides nothing of the host that went on from that commit, neither manifest nor marker', async () => {
    const { host: a, turn, thaw } = await freezing(at)
    const b = await overtakenBy(a, false)
    expect(manifestOf(a).objects).toContain('files/b.txt')
    const [theirs, marker] = [manifestOf(a), storedText(a.backend, MARKER)]
    await a.clock.advance(2_000)
    thaw()
    await turn
    await a.turn('t3-of-a')
    expect(manifestOf(a)).toEqual(theirs)
    expect(storedText(a.backend, MARKER)).toBe(marker)
    expect(a.seen('session.owner.lost')).toHaveLength(1)
    await a.stop()
    expect(b.seen('session.owner.lost')).toEqual([])
  })
})

describe('generations', () => {
  it('never go backwards under on_lost: overwrite: what was begun below the other one is not put, and the retry goes above', async () => {
    const { host: a, turn, thaw } = await freezing('snapshot:before-manifest', { onLost: 'overwrite' })
    await overtakenBy(a, false)
    const theirs = manifestOf(a).generation
    thaw()
    await turn
    expect(manifestOf(a).generation).toBe(theirs)
    expect(a.seen('session.snapshot.result').at(-1)).toMatchObject({ ok: false })
    await a.durability.snapshot('request')
    expect(manifestOf(a).generation).toBeGreaterThan(theirs)
    await a.stop()
  })

  it('that fell below our own are a fork, and are told with both numbers', async () => {
    const a = await TestHost.boot()
    await a.turn('t1')
    const b = await TestHost.boot({ backend: a.backend, clock: a.clock })
    for (const id of ['t2', 't3', 't4']) await b.turn(id)
    // A host that stood still longer than any look can cover puts its commit over three of B's.
    const forged = { ...manifestOf(a), generation: 2, nonce: 'of-a-zombie', instance_id: 'zombie' }
    a.backend.objects.set(MANIFEST, { bytes: Buffer.from(JSON.stringify(forged)), modTime: new Date() })
    await b.turn('t5')
    expect(b.seen('session.owner.lost')).toMatchObject([{ our_generation: 4, their_generation: 2 }])
    await expect(b.durability.snapshot('request')).rejects.toThrow(
      /generation 2, over generation 4 of this run: the session has forked/,
    )
    await b.stop()
    const again = await TestHost.boot({ backend: a.backend, clock: a.clock, disk: b.disk })
    expect(again.seen('session.local.stale')).toMatchObject([
      { local_generation: 4, remote_generation: 2, forked: true },
    ])
    await again.kill()
    await a.kill()
  })
})
