import { writeFileSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Engine, Plugin } from '@nexus/engine'
import { describe, expect, it } from 'vitest'
import { collect, conversation, Lab } from '../../test/lab.ts'
import { agentLoop } from '../agent/loop.ts'
import { scriptedModel } from '../llm/scripted.ts'
import { conversationMemory } from './memory.ts'

const scripted = {
  'nexus.llm.scripted': {
    answers: [{ input: '/^Sum up/', steps: [{ content: 'We counted.' }] }, { steps: [{ content: 'said {{input}}' }] }],
  },
}
const plugins = (): Plugin[] => [conversationMemory(), agentLoop(), scriptedModel()]

async function texts(engine: Engine): Promise<unknown[]> {
  return (await conversation(engine)).map(({ content }) => content)
}

async function ended(lab: Lab, blocks: Record<string, unknown>, inputs: readonly string[]): Promise<Engine> {
  const engine = await lab.engine({ plugins: plugins(), blocks })
  for (const input of inputs) expect(await engine.submitInput(input)).toEqual({ accepted: true })
  await engine.stop()
  return engine
}

async function resumed(
  lab: Lab,
  { sessionId }: Engine,
): Promise<{ engine: Engine; replays: { messages: { content: string }[] }[] }> {
  const replays: { messages: { content: string }[] }[] = []
  const listener: Plugin = {
    id: 'test.front-end',
    name: 'Front end',
    version: '1',
    init: ({ bus }) => void bus.subscribe('io.history.replay', ({ payload }) => void replays.push(payload as never)),
  }
  const engine = await lab.engine({ plugins: [...plugins(), listener], recallSessionId: sessionId })
  return { engine, replays }
}

describe('the conversation', () => {
  it('is told when a session is resumed, and not when it is new', async () => {
    const lab = new Lab()
    const fresh = await lab.engine({ plugins: plugins(), blocks: scripted })
    const none = collect(fresh, 'io.history.replay')
    await fresh.submitInput('a')
    await fresh.stop()
    expect(none).toEqual([])
    const { replays } = await resumed(lab, fresh)
    expect(replays.map(({ messages }) => messages.map(({ content }) => content))).toEqual([['a', 'said a']])
  })

  it('survives lines that are damaged', async () => {
    const lab = new Lab()
    const first = await ended(lab, scripted, ['a', 'b'])
    const path = join(lab.dir, 'host', 'sessions', first.sessionId, 'context', 'conversation.jsonl')
    const lines = readFileSync(path, 'utf8').split('\n')
    writeFileSync(
      path,
      [lines[0], '{"role":"assistant","con', '{"role":"alien","content":""}', ...lines.slice(2)].join('\n'),
    )
    const { engine, replays } = await resumed(lab, first)
    expect(replays[0]?.messages.map(({ content }) => content)).toEqual(['a', 'b', 'said b'])
    await engine.submitInput('c')
    expect(readFileSync(path, 'utf8').split('\n').slice(-3)).toEqual([
      expect.stringContaining('"c"'),
      expect.stringContaining('"said c"'),
      '',
    ])
  })

  it('leaves out what models are asked beside it', async () => {
    const engine = await new Lab().engine({ plugins: plugins(), blocks: scripted })
    await engine.submitInput('a')
    await engine.bus.emit('llm.request', { role: 'title', model: '', messages: [{ role: 'user', content: 'a title' }] })
    expect(await texts(engine)).toEqual(['a', 'said a'])
  })

  it('is in place when the turn ends', async () => {
    const engine = await new Lab().engine({ plugins: plugins(), blocks: scripted })
    let atEnd: unknown[] = []
    engine.bus.subscribe('agent.turn.end', async () => void (atEnd = await texts(engine)))
    await engine.submitInput('a')
    expect(atEnd).toEqual(['a', 'said a'])
  })
})

describe('a compaction', () => {
  const inputs = ['a', 'b', 'c']

  it('keeps the newest turns, and the agent goes on with those', async () => {
    const lab = new Lab()
    const blocks = { ...scripted, 'nexus.memory.conversation': { max_messages: 5, keep_messages: 3 } }
    const first = await ended(lab, blocks, inputs)
    const { engine, replays } = await resumed(lab, first)
    expect(replays[0]?.messages.map(({ content }) => content)).toEqual(['b', 'said b', 'c', 'said c'])
    const requests = collect<{ messages: { content: string }[] }>(engine, 'llm.request')
    await engine.submitInput('d')
    expect(requests[0]?.messages.map(({ content }) => content)).toEqual(['b', 'said b', 'c', 'said c', 'd'])
  })

  it('is made up for at a resume where a kill came between it and the end of its turn', async () => {
    const lab = new Lab()
    const first = await ended(lab, scripted, inputs)
    const tooLong = { 'nexus.memory.conversation': { max_messages: 5, keep_messages: 3 } }
    const second = await lab.engine({
      plugins: plugins(),
      blocks: { ...scripted, ...tooLong },
      recallSessionId: first.sessionId,
      useConfigSnapshot: false,
    })
    expect(await texts(second)).toEqual(['b', 'said b', 'c', 'said c'])
  })

  it('asks the model to sum up the rest', async () => {
    const lab = new Lab()
    const block = { max_messages: 5, keep_messages: 1, summarize: true }
    const engine = await lab.engine({ plugins: plugins(), blocks: { ...scripted, 'nexus.memory.conversation': block } })
    for (const input of inputs) await engine.submitInput(input)
    expect(await texts(engine)).toEqual(['Summary of the conversation before: We counted.', 'c', 'said c'])
  })
})
