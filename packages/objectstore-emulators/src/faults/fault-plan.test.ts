import { describe, expect, it } from 'vitest'
import { FaultPlan } from './fault-plan.ts'

const put = (key: string): { operation: string; key: string } => ({ operation: 'PutObject', key })

describe('fault plan', () => {
  it('strikes as often as was planned, after as many as were to pass', () => {
    const plan = new FaultPlan()
    plan.add({ fault: { kind: 'lost-answer' }, times: 2, after: 1 })
    expect([1, 2, 3, 4].map(() => plan.take(put('k')).length)).toEqual([0, 1, 1, 0])
    expect(plan.struck('lost-answer')).toBe(2)
  })

  it('counts for each key by itself where that was planned', () => {
    const plan = new FaultPlan()
    plan.add({ fault: { kind: 'silence' }, times: 1, perKey: true })
    expect(['a', 'b', 'a', 'b'].map((key) => plan.take(put(key)).length)).toEqual([1, 1, 0, 0])
  })

  it('meets only the requests that a rule names, and none when it was dropped', () => {
    const plan = new FaultPlan()
    const drop = plan.add({ fault: { kind: 'silence' }, on: ({ operation }) => operation === 'GetObject' })
    expect(plan.take(put('k'))).toEqual([])
    expect(plan.take({ operation: 'GetObject', key: 'k' })).toEqual([{ kind: 'silence' }])
    drop()
    expect(plan.take({ operation: 'GetObject', key: 'k' })).toEqual([])
  })
})
