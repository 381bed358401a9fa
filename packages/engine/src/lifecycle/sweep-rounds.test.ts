import { silentLogger } from '@nexus/host'
import { keepingLogger, ManualClock } from '@nexus/host/testing'
import { beforeEach, describe, expect, it } from 'vitest'
import { SweepRounds } from './sweep-rounds.ts'

const HOUR_MS = 60 * 60 * 1000

let clock: ManualClock
let rounds: SweepRounds
let made: string[]
let emptied: number

beforeEach(() => {
  clock = new ManualClock()
  made = []
  emptied = 0
  rounds = new SweepRounds(clock, () => emptied++)
})

async function begin(
  name: string,
  sweep: (ending: AbortController) => void = () => undefined,
): Promise<AbortController> {
  const ending = new AbortController()
  rounds.join({
    signal: ending.signal,
    logger: silentLogger,
    sweep: async () => {
      made.push(name)
      sweep(ending)
    },
  })
  await clock.advance(0)
  return ending
}

describe('sweeps of one root', () => {
  it('are one for all sessions that begin, and one a day from then on', async () => {
    for (const name of ['a', 'b', 'c']) await begin(name)
    await clock.advance(HOUR_MS - 1)
    await begin('d')
    expect(made).toEqual(['a'])
    await clock.advance(23 * HOUR_MS + 1)
    expect(made).toEqual(['a', 'a'])
    await clock.advance(24 * HOUR_MS)
    expect(made).toHaveLength(3)
  })

  it('are made anew for a session that begins an hour after the last, and then a day after that', async () => {
    await begin('a')
    await clock.advance(HOUR_MS)
    await begin('b')
    await clock.advance(23 * HOUR_MS)
    expect(made).toEqual(['a', 'a'])
    await clock.advance(HOUR_MS)
    expect(made).toEqual(['a', 'a', 'a'])
  })

  it('are made by the next session where one ends in the middle of its own', async () => {
    const both = [
      begin('a', (ending) => {
        ending.abort()
        ending.signal.throwIfAborted()
      }),
      begin('b'),
    ]
    await Promise.all(both)
    expect(made).toEqual(['a', 'b'])
  })

  it('that fail are tried again in a day, and told', async () => {
    const logger = keepingLogger()
    rounds.join({ signal: new AbortController().signal, logger, sweep: () => Promise.reject(new Error('no disk')) })
    await clock.advance(0)
    await clock.advance(24 * HOUR_MS)
    expect(logger.lines.filter(({ level }) => level === 'warn')).toHaveLength(2)
  })

  it('end with the last session, and leave no timer', async () => {
    const [a, b] = [await begin('a'), await begin('b')]
    a.abort()
    expect([emptied, clock.pendingTimers]).toEqual([0, 1])
    b.abort()
    expect([emptied, clock.pendingTimers]).toEqual([1, 0])
    await clock.advance(48 * HOUR_MS)
    expect(made).toEqual(['a'])
  })
})
