import { describe, expect, it } from 'vitest'
import { gate, settle } from '@nexus/host/testing'
import { newBus } from '../../test/bus-fixture.ts'
import type { NexusEvent } from './event.ts'

describe('a vetoable event', () => {
  it.each([
    ['returned', () => ({ vetoed: true, reason: 'no' })],
    ['returned later', async () => ({ vetoed: true, reason: 'no' })],
    ['called', (event: NexusEvent) => event.veto('no')],
    [
      'called later',
      async (event: NexusEvent) => {
        await settle()
        event.veto('no')
      },
    ],
  ])('is vetoed by what a handler %s, and no later handler runs', async (_, handler) => {
    const { bus, recorder } = newBus()
    const ran: string[] = []
    bus.subscribe('before:x', () => ran.push('earlier'), { priority: -1 })
    bus.subscribe('before:x', handler)
    bus.subscribe('before:x', () => ran.push('later'), { priority: 1 })
    bus.subscribeAll(() => ran.push('wild'))
    expect(await bus.emitVetoable('before:x', 1)).toEqual({ vetoed: true, reason: 'no' })
    expect(ran).toEqual(['earlier'])
    expect(recorder.records.map(({ outcome }) => outcome)).toEqual([{ vetoed: true, reason: 'no' }])
  })

  it('passes when nobody vetoes, whatever else handlers return', async () => {
    const { bus, recorder } = newBus()
    for (const result of [undefined, null, 0, 'vetoed', { vetoed: false }, { vetoed: 'yes' }, []]) {
      bus.subscribe('before:x', () => result)
      bus.subscribe('before:x', async () => result)
    }
    expect(await bus.emitVetoable('before:x', 1)).toEqual({ vetoed: false })
    expect(recorder.records.map(({ outcome }) => outcome)).toEqual([{ vetoed: false }])
  })

  it('keeps the first of two vetoes of one handler, and needs no reason', async () => {
    const { bus } = newBus()
    bus.subscribe('before:x', (event) => {
      event.veto('first')
      return { vetoed: true, reason: 'second' }
    })
    bus.subscribe('before:y', () => ({ vetoed: true }))
    expect(await bus.emitVetoable('before:x', 1)).toEqual({ vetoed: true, reason: 'first' })
    expect(await bus.emitVetoable('before:y', 1)).toEqual({ vetoed: true })
  })

  it('is recorded when its outcome is known, other events before their handlers run', async () => {
    const { bus, recorder } = newBus()
    const seen: unknown[] = []
    const slow = gate()
    bus.subscribe('before:x', async ({ causation }) => {
      seen.push(['before', causation.seq])
      await slow.promise
    })
    bus.subscribe('x', ({ causation }) => seen.push(['x', causation.seq]))
    const outcome = bus.emitVetoable('before:x', 1)
    await bus.emit('x', 1)
    expect(recorder.types).toEqual(['x'])
    slow.open()
    await outcome
    expect(recorder.types).toEqual(['x', 'before:x'])
    expect(seen).toEqual([
      ['before', undefined],
      ['x', 1],
    ])
  })

  it('goes on after a handler that fails: a broken handler is no veto', async () => {
    const { bus } = newBus()
    bus.subscribe('before:x', () => {
      throw new Error('boom')
    })
    bus.subscribe('before:x', () => ({ vetoed: true, reason: 'real' }), { priority: 1 })
    expect(await bus.emitVetoable('before:x', 1)).toEqual({ vetoed: true, reason: 'real' })
  })

  it('can be emitted plainly: a veto stops it and is recorded', async () => {
    const { bus, recorder } = newBus()
    const ran: string[] = []
    bus.subscribe('before:x', () => ({ vetoed: true }))
    bus.subscribe('before:x', () => ran.push('later'))
    await bus.emit('before:x', 1)
    expect(ran).toEqual([])
    expect(recorder.records[0]?.outcome).toEqual({ vetoed: true })
  })

  it('can not be vetoed once it was decided', async () => {
    const { bus } = newBus()
    let kept: NexusEvent | undefined
    bus.subscribe('before:x', (event) => void (kept = event))
    await bus.emitVetoable('before:x', 1)
    expect(() => kept?.veto('late')).toThrow(expect.objectContaining({ code: 'PRECONDITION' }))
  })
})

describe('an event that is not before:*', () => {
  it('can not be vetoed, by call or by return value', async () => {
    const { bus } = newBus({ failFast: true })
    const ran: string[] = []
    bus.subscribe('x', () => ({ vetoed: true }))
    bus.subscribe('x', () => ran.push('x'), { priority: 1 })
    await bus.emit('x', 1)
    expect(ran).toEqual(['x'])
    bus.subscribe('y', (event) => event.veto())
    await expect(bus.emit('y', 1)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
    await expect(bus.emitVetoable('y', 1)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
  })
})

describe('sharedVetoPriorities', () => {
  it('names every before:* priority that several handlers share, and nothing else', () => {
    const { bus } = newBus()
    expect(bus.sharedVetoPriorities()).toEqual([])
    bus.subscribe('before:x', () => 1, { source: 'a' })
    bus.subscribe('before:x', () => 1, { priority: 5 })
    const off = bus.subscribe('before:x', () => 1, { source: 'b' })
    bus.subscribe('x', () => 1)
    bus.subscribe('x', () => 1)
    expect(bus.sharedVetoPriorities()).toEqual([
      expect.stringMatching(/^before:x: 2 handlers share priority 0 \(a, b\)/),
    ])
    off()
    expect(bus.sharedVetoPriorities()).toEqual([])
  })
})
