import { describe, expect, it } from 'vitest'
import { newBus } from '../../test/bus-fixture.ts'
import { TurnTracker } from './turn-tracker.ts'

const turn = (id: string) => ({ turn_id: id, session_id: 's1' })
const input = { content: 'x', session_id: 's1' }

function newTracker() {
  const { bus, clock } = newBus()
  const begins: string[] = []
  const tracker = new TurnTracker({ clock, settleMs: 5_000, onBegin: () => void begins.push('begin') })
  tracker.attach(bus)
  return { bus, clock, tracker, begins }
}

describe('the turn tracker', () => {
  it('is between turns until one starts, and again when its end is over', async () => {
    const { bus, tracker, begins } = newTracker()
    expect(tracker.betweenTurns).toBe(true)
    await bus.emit('agent.turn.start', turn('1'))
    expect(tracker.betweenTurns).toBe(false)
    expect(begins).toHaveLength(1)
    await bus.emit('agent.turn.end', turn('1'))
    expect(tracker.betweenTurns).toBe(false)
    tracker.turnEnded('1')
    expect(tracker.betweenTurns).toBe(true)
  })

  it('waits for every one of nested turns', async () => {
    const { bus, tracker } = newTracker()
    await bus.emit('agent.turn.start', turn('outer'))
    await bus.emit('agent.turn.start', turn('inner'))
    tracker.turnEnded('inner')
    expect(tracker.betweenTurns).toBe(false)
    tracker.turnEnded('outer')
    expect(tracker.betweenTurns).toBe(true)
  })

  it('takes an input for the beginning of a turn, until it has settled without one', async () => {
    const { bus, clock, tracker, begins } = newTracker()
    await bus.emit('io.input', input)
    expect(tracker.betweenTurns).toBe(false)
    expect(begins).toHaveLength(1)
    await clock.advance(4_999)
    expect(tracker.betweenTurns).toBe(false)
    await clock.advance(1)
    expect(tracker.betweenTurns).toBe(true)
  })

  it('knows that a turn begins before any other handler writes anything', async () => {
    const { bus, tracker } = newTracker()
    const seen: boolean[] = []
    bus.subscribe('io.input', () => void seen.push(tracker.betweenTurns), { priority: -1_000 })
    await bus.emit('io.input', input)
    expect(seen).toEqual([false])
  })
})
