import { NexusError } from '@nexus/errors'
import { describe, expect, it } from 'vitest'
import { Fence } from './fence.ts'

describe('a fence', () => {
  it('lets everything pass while it stands', () => {
    const fence = new Fence()
    fence.check()
    expect([fence.reason, fence.isLost, fence.signal.aborted]).toEqual([undefined, false, false])
  })

  it('throws its reason once it has fallen, and tells those who listen before the fall is over', () => {
    const fence = new Fence()
    const reason = new NexusError('FENCED', 'another host committed')
    const heard: unknown[] = []
    fence.signal.addEventListener('abort', () => heard.push(fence.reason))
    fence.fall(reason)
    expect(heard).toEqual([reason])
    expect(fence.isLost).toBe(true)
    expect(() => fence.check()).toThrow(reason)
  })

  it('falls once: the first reason stays', () => {
    const fence = new Fence()
    const first = new NexusError('CLOSED', 'the run ended')
    fence.fall(first)
    fence.fall(new NexusError('FENCED', 'another host committed'))
    expect(fence.reason).toBe(first)
    expect(fence.isLost).toBe(false)
  })
})
