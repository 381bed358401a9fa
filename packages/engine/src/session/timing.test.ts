import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { openTestBus, turn } from '../../test/session/open-test-bus.ts'
import { subscribeTiming, type TurnTiming } from './timing.ts'

function lines(dir: string): TurnTiming[] {
  const text = readFileSync(join(dir, 'metadata/timing.jsonl'), 'utf8')
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as TurnTiming)
}

describe('subscribeTiming', () => {
  it('writes one line per completed turn, and none for one that did not complete', async () => {
    const { bus, clock, workspace, dir } = await openTestBus()
    const stop = subscribeTiming(bus, workspace, clock)
    await bus.emit('agent.turn.start', turn('t1'))
    clock.advanceNow(1500)
    await bus.emit('agent.turn.start', turn('t2'))
    clock.advanceNow(500)
    await bus.emit('agent.turn.end', turn('t1'))
    expect(lines(dir)).toEqual([
      {
        turn_id: 't1',
        started_at: '2026-01-02T00:00:00.000Z',
        ended_at: '2026-01-02T00:00:02.000Z',
        duration_ms: 2000,
      },
    ])
    stop()
    await bus.emit('agent.turn.end', turn('t2'))
    expect(lines(dir)).toHaveLength(1)
  })

  it('leaves out a start that it did not see, and never says that a turn took less than no time', async () => {
    const { bus, clock, workspace, dir } = await openTestBus()
    subscribeTiming(bus, workspace, clock)
    await bus.emit('agent.turn.end', turn('t1'))
    await bus.emit('agent.turn.start', turn('t2'))
    clock.advanceNow(-60_000)
    await bus.emit('agent.turn.end', turn('t2'))
    expect(lines(dir)).toMatchObject([{ turn_id: 't1' }, { turn_id: 't2', duration_ms: 0 }])
    expect(lines(dir)[0]).not.toHaveProperty('started_at')
  })

  it('does not remember turns that never end for ever', async () => {
    const { bus, clock, workspace, dir } = await openTestBus()
    subscribeTiming(bus, workspace, clock)
    for (let n = 0; n < 1100; n++) await bus.emit('agent.turn.start', turn(`t${n}`))
    await bus.emit('agent.turn.end', turn('t0'))
    await bus.emit('agent.turn.end', turn('t1099'))
    expect(lines(dir)[0]).not.toHaveProperty('started_at')
    expect(lines(dir)[1]).toHaveProperty('started_at')
  })
})
