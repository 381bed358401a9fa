import { describe, expect, it } from 'vitest'
import { Gate } from './gate.ts'

/** Lets everything that is ready run. */
async function settled(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve))
}

describe('a gate', () => {
  it('lets weights in up to its limit, in order, and others when there is room again', async () => {
    const gate = new Gate(10)
    const entered: string[] = []
    const enter = async (name: string, weight: number): Promise<() => void> => {
      const leave = await gate.enter(weight, undefined)
      entered.push(name)
      return leave
    }
    const first = await enter('first', 6)
    const second = enter('second', 6)
    // Would fit, but those who came before go first: a large one would else wait for ever.
    const third = enter('third', 1)
    await settled()
    expect(entered).toEqual(['first'])
    first()
    await Promise.all([second, third])
    expect(entered).toEqual(['first', 'second', 'third'])
  })

  it('lets a weight above the limit in alone', async () => {
    const gate = new Gate(10)
    const leave = await gate.enter(1000, undefined)
    let other = false
    const waiting = gate.enter(1, undefined).then((leaveOther) => {
      other = true
      return leaveOther
    })
    await settled()
    expect(other).toBe(false)
    leave()
    ;(await waiting)()
  })

  it('lets go of one who gives up, and lets those behind in', async () => {
    const gate = new Gate(10)
    await gate.enter(5, undefined)
    const abort = new AbortController()
    const reason = new Error('enough')
    const large = gate.enter(9, abort.signal)
    const small = gate.enter(5, undefined)
    abort.abort(reason)
    await expect(large).rejects.toBe(reason)
    await small
  })
})
