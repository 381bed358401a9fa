import { join } from 'node:path'
import { BlobStore } from '@nexus/blobs'
import { NexusError } from '@nexus/errors'
import { Fence } from '@nexus/host'
import { describe, expect, it } from 'vitest'
import { storedText, until } from './memory-store.ts'
import { TestHost } from './test-host.ts'

const MANIFEST = 'sessions/s1.manifest/manifest.json'

async function takenOver(host: TestHost): Promise<void> {
  const other = await TestHost.boot({ backend: host.backend, clock: host.clock })
  await other.turn('theirs', () => other.write('files/b.txt', 'b'))
  await other.stop()
}

function writesAfter(host: TestHost, calls: number): string[] {
  return host.backend.faults.calls
    .slice(calls)
    .filter(({ op }) => op === 'put' || op === 'putIfAbsent' || op === 'delete')
    .map(({ op, key }) => `${op} ${key}`)
}

describe('a run whose heartbeat finds that another host has committed', () => {
  it('ends the snapshot that is under way', async () => {
    let thaw: (() => void) | undefined
    let armed = false
    const failpoint = (name: string): Promise<void> | void => {
      if (armed && name === 'snapshot:staged') return new Promise((resolve) => (thaw = resolve))
      return undefined
    }
    const a = await TestHost.boot({ failpoint })
    await a.turn('t1')
    armed = true
    const turn = a.turn('t2')
    await until(() => thaw !== undefined, 'the snapshot')
    await takenOver(a)
    const theirs = storedText(a.backend, MANIFEST)
    await a.clock.advance(30_000)
    await until(() => a.durability.status().lost, 'the look of the heartbeat')
    const calls = a.backend.faults.calls.length
    thaw?.()
    await turn
    expect(writesAfter(a, calls)).toEqual([])
    expect(storedText(a.backend, MANIFEST)).toBe(theirs)
    expect(a.seen('session.owner.lost')).toHaveLength(1)
    expect(a.seen('session.storage.degraded')).toHaveLength(1)
    expect(a.seen('session.snapshot.result').at(-1)).toMatchObject({ ok: false })
    expect(await a.input()).toMatchObject({ vetoed: true, reason: expect.stringContaining('generation 3') as string })
    await a.stop()
  })

  it('drops pushes that a retry has begun to drain, and what waits behind them', async () => {
    const a = await TestHost.boot()
    const blobs = BlobStore.open(join(a.dir, 'blobs'), { ...a.durability.blobHooks, byteBudget: 0 })
    await a.turn('t1')
    await a.bus.emit('agent.turn.start', { turn_id: 't2', session_id: 's1' })
    a.backend.faults.failWhen(({ op, key }) => op === 'put' && key.includes('/blobs/'))
    for (let n = 0; n < 10; n++) await blobs.put(Buffer.from(`blob ${n}`))
    await until(() => a.durability.status().queues.retry === 20, 'the queue')
    await takenOver(a)
    a.backend.faults.heal()
    a.backend.faults.hang(({ op, key }) => op === 'put' && key.includes('/blobs/'))
    await a.clock.advance(1_000)
    await until(() => a.backend.faults.calls.at(-1)?.op === 'put', 'the drain')
    const calls = a.backend.faults.calls.length
    await expect(a.durability.snapshot('request')).rejects.toMatchObject({ code: 'FENCED' })
    // The put that is on its way is called off, and its deadline with it.
    await until(() => a.clock.pendingTimers === 0, 'the end of the put')
    a.backend.faults.heal()
    await a.clock.advance(600_000)
    expect(writesAfter(a, calls)).toEqual([])
    expect(a.durability.status().queues).toMatchObject({ retry: 0, writeThrough: 0 })
    await a.stop()
  })
})

it('a run that is abandoned stores nothing more of the snapshot that is under way', async () => {
  let thaw: (() => void) | undefined
  const failpoint = (name: string): Promise<void> | void => {
    if (name === 'snapshot:staged') return new Promise((resolve) => (thaw = resolve))
    return undefined
  }
  const a = await TestHost.boot({ failpoint })
  const turn = a.turn('t1')
  await until(() => thaw !== undefined, 'the snapshot')
  const calls = a.backend.faults.calls.length
  const abandoned = a.kill()
  thaw?.()
  await Promise.all([turn, abandoned])
  expect(writesAfter(a, calls)).toEqual([])
  expect(a.seen('session.snapshot.result')).toEqual([])
})

describe('a run whose fence falls from outside', () => {
  it('stores nothing from then on, refuses input with the reason, and leaves record and marker alone', async () => {
    const fence = new Fence()
    const a = await TestHost.boot({ fence })
    await a.turn('t1')
    const calls = a.backend.faults.calls.length
    fence.fall(new NexusError('LOCKED', 'another process took the lock of session s1'))
    await a.durability.lastWords()
    expect(a.clock.pendingTimers).toBe(0)
    expect(await a.input()).toEqual({ vetoed: true, reason: 'another process took the lock of session s1' })
    await a.turn('t2')
    await expect(a.durability.snapshot('request')).rejects.toMatchObject({ code: 'LOCKED' })
    await a.stop()
    expect(a.backend.faults.calls.slice(calls)).toEqual([])
    expect(a.backend.objects.has('sessions/s1.owner/owner.json')).toBe(true)
  })

  it('has told what it had to tell when its last words are out', async () => {
    const fence = new Fence()
    const a = await TestHost.boot({ fence })
    fence.fall(new NexusError('LOCKED', 'another process took the lock'))
    await a.durability.lastWords()
    expect(a.seen('session.storage.degraded')).toHaveLength(1)
    await a.stop()
  })
})

describe('a commit that is not waited for any longer', () => {
  it('rejects with the reason of the signal, or at its time limit, and is stored all the same', async () => {
    const a = await TestHost.boot()
    a.backend.faults.hang(({ op, key }) => op === 'put' && key === MANIFEST)
    const leaving = new AbortController()
    const aborted = a.durability.snapshot('request', { signal: leaving.signal, reason: 'x' })
    const late = a.durability.snapshot('request', { timeoutMs: 500 })
    const both = Promise.allSettled([aborted, late])
    await until(() => a.backend.faults.calls.at(-1)?.op === 'put', 'the commit')
    leaving.abort(new Error('the client left'))
    await a.clock.advance(500)
    expect(await both).toMatchObject([{ reason: { message: 'the client left' } }, { reason: { code: 'UNAVAILABLE' } }])
    a.backend.faults.heal()
    await until(() => storedText(a.backend, MANIFEST) !== undefined, 'the manifest')
    await a.stop()
  })
})
