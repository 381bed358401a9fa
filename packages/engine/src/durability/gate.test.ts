import { describe, expect, it } from 'vitest'
import { newBus } from '../../test/bus-fixture.ts'
import { GATE_PRIORITY, TurnGate } from './gate.ts'

const input = { content: 'hello', session_id: 's1' }

describe('the turn gate', () => {
  it('vetoes every input while it is closed, with the last reason', async () => {
    const { bus } = newBus()
    const gate = new TurnGate()
    gate.attach(bus)
    expect(await bus.emitVetoable('before:io.input', input)).toEqual({ vetoed: false })
    gate.close('the first failure')
    gate.close('the last failure')
    expect(await bus.emitVetoable('before:io.input', input)).toEqual({ vetoed: true, reason: 'the last failure' })
    gate.open()
    expect(await bus.emitVetoable('before:io.input', input)).toEqual({ vetoed: false })
    expect(gate.refusedCount).toBe(1)
  })

  it('runs behind everything else, so that cancelling still works', async () => {
    const { bus } = newBus()
    const gate = new TurnGate()
    gate.attach(bus)
    gate.close('down')
    const seen: string[] = []
    bus.subscribe('before:io.input', () => void seen.push('cancel'), { priority: GATE_PRIORITY - 1 })
    await bus.emitVetoable('before:io.input', input)
    expect(seen).toEqual(['cancel'])
    expect(GATE_PRIORITY).toBe(200)
  })

  it('refuses nothing once it is detached', async () => {
    const { bus } = newBus()
    const gate = new TurnGate()
    gate.attach(bus)
    gate.close('down')
    gate.detach()
    expect(await bus.emitVetoable('before:io.input', input)).toEqual({ vetoed: false })
  })
})
