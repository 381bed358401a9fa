import { keepingLogger, ManualClock, never } from '@nexus/host/testing'
import { describe, expect, it } from 'vitest'
import type { Tell } from './table.ts'
import { EventOutbox } from './outbox.ts'

const stale = { session_id: 's1', local_generation: 1, remote_generation: 2, forked: false, kept_at: '/x' }
const failure = { source: 'x', error: 'y', fatal: false, retryable: false }

interface OutboxFixture {
  clock: ManualClock
  logger: ReturnType<typeof keepingLogger>
  told: string[]
  tell: Tell
  outbox: EventOutbox
}

function newOutbox(answer: () => Promise<void> = async () => undefined): OutboxFixture {
  const clock = new ManualClock()
  const logger = keepingLogger()
  const told: string[] = []
  const tell: Tell = (type) => {
    told.push(type)
    return answer()
  }
  return { clock, logger, told, tell, outbox: new EventOutbox({ clock, logger, waitMs: 10_000 }) }
}

describe('the event outbox', () => {
  it('keeps what boot found until it is opened, and then tells it once, in order', async () => {
    const { tell, outbox, told } = newOutbox()
    outbox.post('session.local.stale', stale)
    outbox.post('core.error', failure)
    await outbox.flush()
    expect(told).toEqual([])
    outbox.open(tell)
    await outbox.flush()
    await outbox.flush()
    expect(told).toEqual(['session.local.stale', 'core.error'])
  })

  it('goes on without a listener that never settles', async () => {
    const { outbox, clock, logger, told, tell } = newOutbox(() => never)
    outbox.open(tell)
    outbox.post('session.local.stale', stale)
    outbox.post('core.error', failure)
    const flushed = outbox.flush()
    await clock.advance(10_000)
    await clock.advance(10_000)
    await flushed
    expect(told).toEqual(['session.local.stale', 'core.error'])
    expect(logger.lines.filter(({ level }) => level === 'warn')).toHaveLength(2)
    expect(clock.pendingTimers).toBe(0)
  })

  it('does not mind a listener that fails', async () => {
    const { outbox, tell } = newOutbox(() => Promise.reject(new Error('closed')))
    outbox.open(tell)
    outbox.post('session.local.stale', stale)
    await expect(outbox.flush()).resolves.toBeUndefined()
  })

  it('drops everything once it is closed', async () => {
    const { outbox, tell, told } = newOutbox()
    outbox.open(tell)
    outbox.post('session.local.stale', stale)
    outbox.close()
    await outbox.flush()
    expect(told).toEqual([])
  })
})
