import { describe, expect, it } from 'vitest'
import { Slots } from './slots.ts'

const MIB = 1024 * 1024

/** Lets everything that is ready run. */
async function settled(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve))
}

describe('slots', () => {
  it('keep a quarter free of large transfers, so that a small one goes at once', async () => {
    const slots = new Slots(4)
    const large = [2, 2, 2, 2, 2].map((mib) => slots.enter(mib * MIB, {}))
    let waits = 0
    const onWait = (): (() => void) => {
      waits++
      return () => undefined
    }
    const leave = await slots.enter(1000, { onWait })
    expect(waits).toBe(0)
    leave()
    for (const each of large) (await each)()
  })

  it('are all there for small transfers, and the next one waits and says so', async () => {
    const slots = new Slots(2)
    const inside = [await slots.enter(0, {}), await slots.enter(0, {})]
    const told: string[] = []
    const third = slots.enter(0, { onWait: () => (told.push('waits'), () => told.push('goes')) })
    await settled()
    expect(told).toEqual(['waits'])
    inside[0]?.()
    ;(await third)()
    expect(told).toEqual(['waits', 'goes'])
  })

  it('let a large transfer in where there is one slot only', async () => {
    const slots = new Slots(1)
    ;(await slots.enter(5 * MIB, {}))()
    ;(await slots.enter(5 * MIB, {}))()
  })

  it('give the large share back when the wait for a slot is aborted', async () => {
    const slots = new Slots(1)
    const leave = await slots.enter(0, {})
    const abort = new AbortController()
    const waiting = slots.enter(5 * MIB, { signal: abort.signal })
    abort.abort(new Error('enough'))
    await expect(waiting).rejects.toThrow('enough')
    leave()
    ;(await slots.enter(5 * MIB, {}))()
  })

  it('grant silence for what is on its way over 256 KiB/s, up to a minute', () => {
    const slots = new Slots(4)
    expect(slots.drainMs).toBe(0)
    const done = slots.hand(MIB)
    expect(slots.drainMs).toBe(4096)
    const others = Array.from({ length: 16 }, () => slots.hand(100 * MIB))
    expect(slots.drainMs).toBe(64_000)
    for (const each of [done, ...others]) each()
    expect(slots.drainMs).toBe(0)
  })
})
