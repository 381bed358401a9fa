import { ManualClock } from '@nexus/host/testing'
import { describe, expect, it } from 'vitest'
import { TurnTracker } from './turn-tracker.ts'

function newTracker(): { clock: ManualClock; tracker: TurnTracker; begins: string[] } {
  const clock = new ManualClock()
  const begins: string[] = []
  const tracker = new TurnTracker({ clock, settleMs: 5_000, onBegin: () => void begins.push('begin') })
  return { clock, tracker, begins }
}

describe('the turn tracker', () => {
  it('is between turns until one starts, and again when its end is over', () => {
    const { tracker, begins } = newTracker()
    expect(tracker.betweenTurns).toBe(true)
    tracker.turnBegan('1')
    expect(tracker.betweenTurns).toBe(false)
    expect(begins).toHaveLength(1)
    tracker.turnEnded('1')
    expect(tracker.betweenTurns).toBe(true)
  })

  it('waits for every one of nested turns', () => {
    const { tracker } = newTracker()
    tracker.turnBegan('outer')
    tracker.turnBegan('inner')
    tracker.turnEnded('inner')
    expect(tracker.betweenTurns).toBe(false)
    tracker.turnEnded('outer')
    expect(tracker.betweenTurns).toBe(true)
  })

  it('takes an input for the beginning of a turn, until it has settled without one', async () => {
    const { clock, tracker, begins } = newTracker()
    tracker.inputCame()
    expect(tracker.betweenTurns).toBe(false)
    expect(begins).toHaveLength(1)
    await clock.advance(4_999)
    expect(tracker.betweenTurns).toBe(false)
    await clock.advance(1)
    expect(tracker.betweenTurns).toBe(true)
  })
})
