import { describe, expect, it } from 'vitest'
import { Lane } from './lane.ts'

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

describe('Lane', () => {
  it('admits at most sixteen at once, the others in order as places get free', async () => {
    const lane = new Lane()
    const admitted: number[] = []
    for (let index = 0; index < 20; index++) void Promise.resolve(lane.enter()).then(() => admitted.push(index))
    await turn()
    expect(admitted).toHaveLength(16)
    lane.leave()
    lane.leave()
    await turn()
    expect(admitted.slice(16)).toEqual([16, 17])
    expect(lane.active).toBe(16)
  })

  it('makes work that has had its slice wait for the next turn of the event loop', async () => {
    const lane = new Lane()
    expect(lane.enter()).toBeUndefined()
    lane.leave()
    for (const endMs = performance.now() + 6; performance.now() < endMs;);
    const admission = lane.enter()
    expect(admission).toBeInstanceOf(Promise)
    await admission
    expect(lane.active).toBe(1)
  })
})
