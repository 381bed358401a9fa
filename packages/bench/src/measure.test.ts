import { describe, expect, it } from 'vitest'
import { alternate, compare, median } from './measure.ts'

describe('median', () => {
  it('is the middle of an odd number of values, whatever their order', () => {
    expect(median([9, 1, 5])).toBe(5)
  })

  it('is the mean of the two in the middle of an even number', () => {
    expect(median([10, 1, 3, 4])).toBe(3.5)
  })

  it('refuses to be taken of nothing', () => {
    expect(() => median([])).toThrow(RangeError)
  })
})

describe('alternate', () => {
  it('runs every contender once a round and begins each round with another one', async () => {
    const order: string[] = []
    const contender = (name: string) => () => order.push(name)
    await alternate({ a: contender('a'), b: contender('b') }, { rounds: 2, warmups: 1 })
    expect(order.join('')).toBe('abbaab')
  })

  it('throws away the samples of the warm-up', async () => {
    let calls = 0
    const { a } = await alternate({ a: () => ++calls }, { rounds: 3, warmups: 2 })
    expect(a).toEqual([3, 4, 5])
  })

  it('waits for asynchronous contenders', async () => {
    const { a } = await alternate({ a: () => Promise.resolve(7) }, { rounds: 1, warmups: 0 })
    expect(a).toEqual([7])
  })
})

describe('compare', () => {
  it('takes the ratio within each round, so that a slow spell weighs on both sides', () => {
    const { ours, reference, ratio, ratioLow, ratioHigh } = compare([2, 40, 6], [1, 20, 2])
    expect({ ours, reference, ratio, ratioLow, ratioHigh }).toEqual({
      ours: 6,
      reference: 2,
      ratio: 2,
      ratioLow: 2,
      ratioHigh: 3,
    })
  })
})
