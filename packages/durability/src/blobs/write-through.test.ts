import { describe, expect, it } from 'vitest'
import { gate, ManualClock, settle } from '@nexus/host/testing'
import type { DeferredPush } from '../outage/recovery.ts'
import { BlobWriteThrough, type PushOutcome } from './write-through.ts'

function newQueue({ queueLimit = 256 } = {}) {
  const clock = new ManualClock()
  const log: string[] = []
  const deferred: string[] = []
  const world = {
    down: false,
    held: undefined as ReturnType<typeof gate<PushOutcome>> | undefined,
    gone: new Set<string>(),
  }
  const queue = new BlobWriteThrough({
    clock,
    queueLimit,
    quietMs: 100,
    holdsBack: () => world.down,
    defer: ({ path }) => void deferred.push(path),
    push: ({ path }, signal) => {
      log.push(path)
      const { held } = world
      if (held === undefined) return Promise.resolve(world.gone.has(path) ? 'gone' : 'stored')
      signal.addEventListener('abort', () => held.open('failed'), { once: true })
      return held.promise
    },
    flush: () => {
      log.push('flush')
      return Promise.resolve()
    },
  })
  return { queue, clock, log, deferred, world }
}

const blob = (name: string): DeferredPush[] =>
  ['bin', 'meta'].map((part) => ({ path: `${name}.${part}`, localPath: `/${name}.${part}` }))

describe('the write-through of blobs', () => {
  it('uploads content, then media type, one object at a time, and flushes when the queue is quiet', async () => {
    const { queue, clock, log } = newQueue()
    queue.take(blob('a'))
    queue.take(blob('b'))
    await settle()
    expect(log).toEqual(['a.bin', 'a.meta', 'b.bin', 'b.meta'])
    await clock.advance(99)
    expect(log).not.toContain('flush')
    await clock.advance(1)
    expect(log.at(-1)).toBe('flush')
    expect(log.filter((each) => each === 'flush')).toHaveLength(1)
    expect(clock.pendingTimers).toBe(0)
  })

  it('does not flush while blobs keep coming', async () => {
    const { queue, clock, log } = newQueue()
    for (let i = 0; i < 5; i++) {
      queue.take(blob(`b${i}`))
      await clock.advance(60)
    }
    expect(log).not.toContain('flush')
    await clock.advance(100)
    expect(log).toContain('flush')
  })

  it('bounds its queue: what does not fit is left to the snapshot', async () => {
    const { queue, log, world } = newQueue({ queueLimit: 256 })
    world.held = gate()
    queue.take(blob('running'))
    await settle()
    for (let i = 0; i < 300; i++) queue.take(blob(`b${i}`))
    expect(queue.queued).toBe(256)
    expect(queue.skipped).toBe(44)
    expect(log).toEqual(['running.bin'])
    queue.discard()
  })

  it('hands a failed blob, and all behind it, to the retries while the store is down', async () => {
    const { queue, log, deferred, world } = newQueue()
    world.held = gate()
    queue.take(blob('a'))
    queue.take(blob('b'))
    await settle()
    world.down = true
    world.held.open('failed')
    await settle()
    expect(log).toEqual(['a.bin'])
    expect(deferred).toEqual(['a.bin', 'a.meta', 'b.bin', 'b.meta'])
    queue.take(blob('c'))
    expect(deferred.slice(4)).toEqual(['c.bin', 'c.meta'])
  })

  it('forgets a blob that was deleted meanwhile', async () => {
    const { queue, log, deferred, world } = newQueue()
    world.gone.add('a.bin')
    queue.take(blob('a'))
    queue.take(blob('b'))
    await settle()
    expect(log).toEqual(['a.bin', 'b.bin', 'b.meta'])
    expect(deferred).toEqual([])
  })

  it('drains at the end: uploads and flushes what waits, and takes no more', async () => {
    const { queue, clock, log } = newQueue()
    queue.take(blob('a'))
    queue.take(blob('b'))
    await queue.drain(new AbortController().signal)
    expect(log).toEqual(['a.bin', 'a.meta', 'b.bin', 'b.meta', 'flush'])
    queue.take(blob('late'))
    await settle()
    expect(log).not.toContain('late.bin')
    expect(clock.pendingTimers).toBe(0)
  })

  it('gives up draining when the bound is reached, and leaves the rest to the snapshot', async () => {
    const { queue, log, deferred, world } = newQueue()
    world.held = gate()
    queue.take(blob('a'))
    queue.take(blob('b'))
    await settle()
    const bound = new AbortController()
    const drained = queue.drain(bound.signal)
    bound.abort(new Error('too late'))
    await drained
    expect(log).toEqual(['a.bin'])
    expect(deferred).toEqual([])
    expect(queue.queued).toBe(0)
  })

  it('drops everything when the run is abandoned', async () => {
    const { queue, clock, log, deferred, world } = newQueue()
    world.held = gate()
    queue.take(blob('a'))
    queue.take(blob('b'))
    await settle()
    queue.discard()
    await clock.advance(10_000)
    expect(log).toEqual(['a.bin'])
    expect(deferred).toEqual([])
    expect(clock.pendingTimers).toBe(0)
  })
})
