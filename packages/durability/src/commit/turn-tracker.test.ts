import { ManualClock } from '@nexus/host/testing'
import { describe, expect, it } from 'vitest'
import { TurnTracker } from './turn-tracker.ts'

interface Fixture {
  clock: ManualClock
  tracker: TurnTracker
  journal: { position: number }
}

function newTracker(): Fixture {
  const clock = new ManualClock()
  const journal = { position: 7 }
  const tracker = new TurnTracker({ clock, settleMs: 5_000, stallMs: 600_000, position: () => journal.position })
  return { clock, tracker, journal }
}

describe('the turn tracker', () => {
  it('is between turns until one starts, and again when its end is over', () => {
    const { tracker } = newTracker()
    expect(tracker.betweenTurns).toBe(true)
    tracker.turnBegan('1')
    expect(tracker.betweenTurns).toBe(false)
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
    const { clock, tracker } = newTracker()
    tracker.inputCame()
    expect(tracker.betweenTurns).toBe(false)
    await clock.advance(4_999)
    expect(tracker.betweenTurns).toBe(false)
    await clock.advance(1)
    expect(tracker.betweenTurns).toBe(true)
  })

  it('takes a turn for ended when nothing has happened for ten minutes, however its end got lost', async () => {
    const { clock, tracker, journal } = newTracker()
    tracker.turnBegan('leaked')
    for (let minute = 0; minute < 30; minute++) {
      expect(tracker.betweenTurns).toBe(false)
      journal.position += 1
      await clock.advance(60_000)
    }
    expect(tracker.betweenTurns).toBe(false)
    await clock.advance(600_000)
    expect(tracker.betweenTurns).toBe(true)
  })

  it('takes an end that names no turn for the end of all', () => {
    const { tracker } = newTracker()
    tracker.turnBegan('1')
    tracker.turnEnded(undefined)
    expect(tracker.betweenTurns).toBe(true)
  })

  it.each(['inputCame', 'turnBegan'] as const)('ends work that may only run between turns (%s)', (begins) => {
    const { tracker } = newTracker()
    const work = tracker.untilTurn()
    expect(work.aborted).toBe(false)
    if (begins === 'inputCame') tracker.inputCame()
    else tracker.turnBegan('1')
    expect(work.aborted).toBe(true)
    expect(tracker.untilTurn().aborted).toBe(true)
    tracker.turnEnded('1')
    expect(tracker.untilTurn().aborted).toBe(false)
  })
})
