import { getEventListeners } from 'node:events'
import { setImmediate } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { forEachBounded } from './pool.ts'

function* broken(): Generator<number> {
  yield 1
  throw new Error('no more pages')
}

describe('forEachBounded', () => {
  it('runs every item once, in order, and never more than the limit at a time', async () => {
    let running = 0
    let most = 0
    const started: number[] = []
    await forEachBounded(
      Array.from({ length: 50 }, (_, i) => i),
      7,
      async (item, index) => {
        expect(index).toBe(item)
        started.push(item)
        most = Math.max(most, ++running)
        await setImmediate()
        running--
      },
    )
    expect(started).toEqual(Array.from({ length: 50 }, (_, i) => i))
    expect(most).toBe(7)
  })

  it('stops at the first failure, aborts the running ones, waits for them and throws it', async () => {
    const boom = new Error('boom')
    const started: number[] = []
    let ended = 0
    const run = forEachBounded([0, 1, 2, 3, 4, 5, 6, 7], 3, async (item, _index, signal) => {
      started.push(item)
      await setImmediate()
      if (item === 1) throw boom
      while (!signal.aborted) await setImmediate()
      expect(signal.reason).toBe(boom)
      await setImmediate()
      ended++
      throw new Error('a later failure, which is not the one')
    })
    await expect(run).rejects.toBe(boom)
    expect(started).toEqual([0, 1, 2])
    expect(ended).toBe(2)
  })

  it('stops when its signal fires, and throws the reason whatever the running ones say', async () => {
    const abort = new AbortController()
    let started = 0
    const run = forEachBounded(
      Array.from({ length: 20 }, (_, i) => i),
      4,
      async () => {
        if (++started === 4) abort.abort('enough')
        await setImmediate()
        throw new Error('cut off')
      },
      abort.signal,
    )
    await expect(run).rejects.toBe('enough')
    expect(started).toBe(4)
    expect(getEventListeners(abort.signal, 'abort')).toEqual([])
  })

  it('does nothing under a signal that has fired', async () => {
    let started = 0
    await expect(forEachBounded([1], 1, () => started++, AbortSignal.abort('no'))).rejects.toBe('no')
    expect(started).toBe(0)
  })

  it('takes what is generated only as it is needed, and ends the generator', async () => {
    let ended = false
    async function* numbers(): AsyncGenerator<number> {
      try {
        for (let i = 0; ; i++) yield i
      } finally {
        ended = true
      }
    }
    const seen: number[] = []
    const run = forEachBounded(numbers(), 2, async (item) => {
      seen.push(item)
      await setImmediate()
      if (item === 3) throw new Error('that will do')
    })
    await expect(run).rejects.toThrow('that will do')
    expect(ended).toBe(true)
    expect(seen.length).toBeLessThan(8)
  })

  it('fails when the items fail', async () => {
    await expect(forEachBounded(broken(), 4, () => undefined)).rejects.toThrow('no more pages')
  })

  it('takes nothing, and a limit that is no number of workers', async () => {
    await forEachBounded([], 3, () => expect.unreachable())
    await expect(forEachBounded([1], 0, () => undefined)).rejects.toThrow(RangeError)
    await expect(forEachBounded([1], Number.NaN, () => undefined)).rejects.toThrow(RangeError)
  })
})
