import { describe, expect, it } from 'vitest'
import { never, newBus } from '../../test/bus-fixture.ts'
import { EventOutbox } from './event-outbox.ts'

const stale = { session_id: 's1', local_generation: 1, remote_generation: 2, forked: false, kept_at: '/x' }

function newOutbox() {
  const { bus, clock, logger, recorder } = newBus()
  return { bus, clock, logger, recorder, outbox: new EventOutbox({ clock, logger, waitMs: 10_000 }) }
}

describe('the event outbox', () => {
  it('keeps what boot found until it is opened, and then raises it once, in order', async () => {
    const { bus, outbox, recorder } = newOutbox()
    outbox.post('session.local.stale', stale)
    outbox.post('core.error', { source: 'x', error: 'y', fatal: false, retryable: false })
    await outbox.flush()
    expect(recorder.types).toEqual([])
    outbox.open(bus)
    await outbox.flush()
    await outbox.flush()
    expect(recorder.types).toEqual(['session.local.stale', 'core.error'])
    expect(recorder.records[0]?.event).toMatchObject({
      source: 'core.object_store',
      payload: { _schema_version: 1, ...stale },
    })
  })

  it('goes on without a handler that never settles', async () => {
    const { bus, outbox, clock, logger, recorder } = newOutbox()
    bus.subscribe('session.local.stale', () => never)
    outbox.open(bus)
    outbox.post('session.local.stale', stale)
    outbox.post('core.error', { source: 'x', error: 'y', fatal: false, retryable: false })
    const flushed = outbox.flush()
    await clock.advance(10_000)
    await flushed
    expect(recorder.types).toEqual(['session.local.stale', 'core.error'])
    expect(logger.lines.filter(({ level }) => level === 'warn')).toHaveLength(1)
    expect(clock.pendingTimers).toBe(0)
  })

  it('does not mind a bus that was closed', async () => {
    const { bus, outbox } = newOutbox()
    outbox.open(bus)
    bus.close()
    outbox.post('session.local.stale', stale)
    await expect(outbox.flush()).resolves.toBeUndefined()
  })

  it('drops everything once it is closed', async () => {
    const { bus, outbox, recorder } = newOutbox()
    outbox.open(bus)
    outbox.post('session.local.stale', stale)
    outbox.close()
    await outbox.flush()
    expect(recorder.types).toEqual([])
  })
})
