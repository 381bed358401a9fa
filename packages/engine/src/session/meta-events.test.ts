import { describe, expect, it } from 'vitest'
import { openTestBus, turn } from '../../test/session/open-test-bus.ts'
import { readSessionMeta } from './meta.ts'
import { subscribeMeta } from './meta-events.ts'

describe('subscribeMeta', () => {
  it('adds up tokens and cost with every response, and counts turns', async () => {
    const { bus, workspace, dir } = await openTestBus()
    const stop = subscribeMeta(bus, workspace)
    const usage = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 }
    await bus.emit('llm.response', { content: '', usage, cost_usd: 0.25 })
    await bus.emit('llm.response', { content: '', usage, cost_usd: 0.5 })
    await bus.emit('agent.turn.end', turn('t1'))
    const expected = { tokensUsed: 30, promptTokensUsed: 20, completionTokensUsed: 10, costUsd: 0.75, turnCount: 1 }
    expect(workspace.meta()).toMatchObject(expected)
    expect(await readSessionMeta(dir)).toMatchObject(expected)
    stop()
    await bus.emit('agent.turn.end', turn('t2'))
    expect(workspace.meta().turnCount).toBe(1)
  })

  it('loses no count of events at the same time', async () => {
    const { bus, workspace, dir } = await openTestBus()
    subscribeMeta(bus, workspace)
    const usage = { prompt_tokens: 1, completion_tokens: 2, total_tokens: 3 }
    const emits = Array.from({ length: 50 }, (_, n) =>
      n % 2 ? bus.emit('agent.turn.end', turn(`t${n}`)) : bus.emit('llm.response', { content: '', usage }),
    )
    await Promise.all(emits)
    expect(await readSessionMeta(dir)).toMatchObject({ turnCount: 25, tokensUsed: 75, promptTokensUsed: 25 })
  })

  it('counts what is missing or no number as nothing, and a missing total as the sum', async () => {
    const { bus, workspace } = await openTestBus()
    subscribeMeta(bus, workspace)
    await bus.emit('llm.response', { content: '' })
    await bus.emit('llm.response', { content: '', usage: null, cost_usd: Number.NaN } as never)
    await bus.emit('llm.response', {
      content: '',
      usage: { prompt_tokens: '9', total_tokens: -3 },
      cost_usd: 'free',
    } as never)
    expect(workspace.meta()).toMatchObject({ tokensUsed: 0, promptTokensUsed: 0, costUsd: 0 })
    await bus.emit('llm.response', { content: '', usage: { prompt_tokens: 2, completion_tokens: 3 } } as never)
    expect(workspace.meta()).toMatchObject({ tokensUsed: 5 })
  })

  it('announces the metadata as a child of the event that changed them', async () => {
    const { bus, workspace } = await openTestBus()
    subscribeMeta(bus, workspace)
    const parents: (string | undefined)[] = []
    let id = ''
    bus.subscribe('agent.turn.end', (event) => {
      id = event.id
    })
    bus.subscribe('session.file.updated', ({ causation }) => {
      parents.push(causation.parent_id)
    })
    await bus.emit('agent.turn.end', turn('t1'))
    expect(parents).toEqual([id])
  })
})
