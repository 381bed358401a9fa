import { describe, expect, it } from 'vitest'
import { newBus } from '../../test/bus-fixture.ts'
import type { DurabilityEvents } from '@nexus/durability'
import type { EngineEventMap, PayloadOf } from './event-map.ts'

declare module '@nexus/engine' {
  interface EventMap {
    'weather.report': { city: string; celsius: number }
  }
}

// The compiler is the judge here: each expected error that it doesn't find fails the type check.
describe('typed events', () => {
  it('know the payloads of the engine, of before:* events, and of what a plugin declares', async () => {
    const { bus } = newBus()
    const seen: unknown[] = []
    bus.subscribe('weather.report', ({ payload }) => seen.push(payload.celsius))
    bus.subscribe('before:io.input', ({ payload }) => seen.push(payload.content))
    bus.subscribe('before:weather.report', ({ payload }) => seen.push(payload.city))
    bus.subscribe('nobody.knows', ({ payload }) => seen.push(payload satisfies unknown))
    await bus.emit('weather.report', { city: 'Rome', celsius: 31 })
    await bus.emitVetoable('before:io.input', { content: 'hi', session_id: 's' })
    await bus.emitVetoable('before:weather.report', { city: 'Oslo', celsius: 3 })
    await bus.emit('nobody.knows', [1])
    const dynamic: string = 'io.output'
    await bus.emit(dynamic, { anything: true })
    expect(seen).toEqual([31, 'hi', 'Oslo', [1]])
  })

  it('are for what durability tells what it says they are, and none of it is missing', () => {
    type Told = Pick<EngineEventMap, keyof DurabilityEvents>
    const there = (payloads: DurabilityEvents): Told => payloads
    const back = (payloads: Told): DurabilityEvents => payloads
    expect([there, back]).toHaveLength(2)
  })

  it('refuse payloads that do not fit', () => {
    const { bus } = newBus()
    // @ts-expect-error a field is missing
    void bus.emit('io.input', { session_id: 's' })
    // @ts-expect-error a field has the wrong type
    void bus.emit('weather.report', { city: 'Rome', celsius: 'hot' })
    // @ts-expect-error a field does not exist
    void bus.emit('core.ready', { nope: 1 })
    // @ts-expect-error the payload of the target counts for before:* too
    void bus.emitVetoable('before:io.input', { content: 5, session_id: 's' })
    // @ts-expect-error an unknown payload can't be read without a look
    bus.subscribe('nobody.knows', ({ payload }) => payload.field as unknown)
    const free: PayloadOf<'thinking.step'> = { whatever: [1] }
    expect(free).toBeDefined()
  })
})
