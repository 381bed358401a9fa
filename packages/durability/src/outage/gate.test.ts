import { describe, expect, it } from 'vitest'
import { TurnGate } from './gate.ts'

describe('the turn gate', () => {
  it('refuses every input while it is closed, with the last reason', () => {
    const gate = new TurnGate()
    expect(gate.judge()).toBeUndefined()
    gate.close('the first failure')
    gate.close('the last failure')
    expect(gate.judge()).toBe('the last failure')
    gate.open()
    expect(gate.judge()).toBeUndefined()
    expect(gate.refusedCount).toBe(1)
  })

  it('refuses nothing once it is removed', () => {
    const gate = new TurnGate()
    gate.close('down')
    gate.remove()
    expect(gate.judge()).toBeUndefined()
  })
})
