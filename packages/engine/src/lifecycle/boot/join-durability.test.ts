import type { SessionDurability } from '@nexus/durability'
import { describe, expect, it } from 'vitest'
import { newBus } from '../../../test/bus-fixture.ts'
import { joinDurability } from './join-durability.ts'

const input = { content: 'hello', session_id: 's1' }
const turn = { turn_id: 't1', session_id: 's1' }

function joined(refusal?: string): { bus: ReturnType<typeof newBus>['bus']; calls: string[]; leave: () => void } {
  const { bus } = newBus()
  const calls: string[] = []
  const durability = {
    refusal: () => refusal,
    inputCame: () => void calls.push('input'),
    turnBegan: (id: string) => void calls.push(`began ${id}`),
    onBoundary: async ({ type }: { type: string }) => void calls.push(type),
  } as unknown as SessionDurability
  return { bus, calls, leave: joinDurability(bus, durability) }
}

describe('the durability of a session on the bus', () => {
  it('asks the durability after everybody else, so that cancelling still works', async () => {
    const { bus } = joined('down')
    const seen: string[] = []
    bus.subscribe('before:io.input', () => void seen.push('cancel'), { priority: 199 })
    expect(await bus.emitVetoable('before:io.input', input)).toEqual({ vetoed: true, reason: 'down' })
    expect(seen).toEqual(['cancel'])
  })

  it('tells of inputs and turns before any other handler writes anything, and of a boundary after all of them', async () => {
    const { bus, calls } = joined()
    for (const type of ['io.input', 'agent.turn.start', 'agent.turn.end'] as const) {
      bus.subscribe(type, () => void calls.push(`handler of ${type}`), { priority: type === 'agent.turn.end' ? 1 : -1 })
    }
    await bus.emit('io.input', input)
    await bus.emit('agent.turn.start', turn)
    await bus.emit('agent.turn.end', turn)
    expect(calls).toEqual([
      'input',
      'handler of io.input',
      'began t1',
      'handler of agent.turn.start',
      'handler of agent.turn.end',
      'agent.turn.end',
    ])
  })

  it('hears nothing more once it has left', async () => {
    const { bus, calls, leave } = joined('down')
    leave()
    expect(await bus.emitVetoable('before:io.input', input)).toEqual({ vetoed: false })
    await bus.emit('agent.turn.end', turn)
    expect(calls).toEqual([])
  })
})
