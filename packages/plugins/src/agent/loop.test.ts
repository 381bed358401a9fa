import { type Engine, NexusError, type Plugin } from '@nexus/engine'
import * as v from 'valibot'
import { describe, expect, it } from 'vitest'
import { collect, conversation, Lab, until } from '../../test/lab.ts'
import { conversationMemory } from '../conversation/memory.ts'
import { scriptedModel } from '../llm/scripted.ts'
import { defineTool, type ServedTools, serveTools, type ToolRun } from '../tools/serve-tools.ts'
import { agentLoop } from './loop.ts'

const answers = [
  {
    input: 'weather',
    steps: [
      {
        tool_calls: [
          { name: 'look', arguments: { city: 'Bern' } },
          { name: 'look', arguments: { city: 'Rome' } },
        ],
      },
      { content: 'Rain, then sun.' },
    ],
  },
  {
    input: '/^call (\\w+)$/',
    steps: [{ tool_calls: [{ name: '{{1}}', arguments: {} }] }, { content: 'called {{1}}' }],
  },
  {
    input: 'loop',
    steps: Array.from({ length: 9 }, () => ({ tool_calls: [{ name: 'look', arguments: { city: 'x' } }] })),
  },
  { input: 'hello', steps: [{ content: 'Hi!' }] },
]

function looker(look: (city: string, run: ToolRun) => unknown): Plugin {
  let tools: ServedTools
  return {
    id: 'test.look',
    name: 'Look',
    version: '1',
    init(context) {
      const tool = defineTool({
        name: 'look',
        description: 'Looks out of the window.',
        parameters: v.object({ city: v.string() }),
        run: ({ city }, run) => look(city, run),
      })
      tools = serveTools(context, [tool])
    },
    ready: () => tools.announce(),
    shutdown: () => tools.close(),
  }
}

function agent(look: (city: string, run: ToolRun) => unknown = (city) => `cloud over ${city}`): Plugin[] {
  return [conversationMemory(), agentLoop(), scriptedModel(), looker(look)]
}
const blocks = { 'nexus.llm.scripted': { answers } }

async function cancel(engine: Engine, turnId: string): Promise<void> {
  await engine.bus.emit('agent.turn.cancel', { turn_id: turnId, session_id: engine.sessionId, reason: 'enough' })
}

describe('a turn', () => {
  it('asks the model, runs the tools in order, asks again, and says the answer', async () => {
    const engine = await new Lab().engine({ plugins: agent(), blocks })
    const requests = collect<{ messages: unknown[]; tools: unknown[] }>(engine, 'llm.request')
    const outputs = collect(engine, 'io.output')
    expect(await engine.submitInput('weather')).toEqual({ accepted: true })
    expect(outputs).toMatchObject([{ content: 'Rain, then sun.', role: 'assistant', turn_id: 'turn-1' }])
    expect(requests[0]?.tools).toEqual([
      {
        name: 'look',
        description: 'Looks out of the window.',
        parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
      },
    ])
    expect(requests[1]?.messages).toMatchObject([
      { role: 'user', content: 'weather' },
      { role: 'assistant', tool_calls: [{ name: 'look' }, { name: 'look' }] },
      { role: 'tool', content: 'cloud over Bern', tool_call_id: 'call-turn-1-1-1' },
      { role: 'tool', content: 'cloud over Rome', tool_call_id: 'call-turn-1-1-2' },
    ])
    expect((await conversation(engine)).map(({ role }) => role)).toEqual([
      'user',
      'assistant',
      'tool',
      'tool',
      'assistant',
    ])
    expect(engine.session.meta().turnCount).toBe(1)
  })

  it('goes on with the conversation in a later run', async () => {
    const lab = new Lab()
    const first = await lab.engine({ plugins: agent(), blocks })
    await first.submitInput('hello')
    await first.stop()
    const second = await lab.engine({ plugins: agent(), blocks, recallSessionId: first.sessionId })
    const requests = collect<{ messages: { content: string }[] }>(second, 'llm.request')
    await second.submitInput('hello')
    expect(requests[0]?.messages.map(({ content }) => content)).toEqual(['hello', 'Hi!', 'hello'])
    expect((await conversation(second)).map((message) => message['turn_id'])).toEqual([
      'turn-1',
      'turn-1',
      'turn-2',
      'turn-2',
    ])
  })

  it.each([
    ['a model that throws', 'no such input', /no entry for the input/],
    ['a model that is never done', 'loop', /asked the model 3 times/],
  ])('that fails by %s ends, and is told so in the outcome', async (_, input, message) => {
    const engine = await new Lab().engine({
      plugins: agent(),
      blocks: { ...blocks, 'nexus.agent.loop': { max_iterations: 3 } },
    })
    const ends = collect(engine, 'agent.turn.end')
    const outcome = await engine.submitInput(input)
    expect(outcome).toMatchObject({
      accepted: true,
      failed: 1,
      error: { message: expect.stringMatching(message) as unknown },
    })
    expect(ends).toMatchObject([{ turn_id: 'turn-1', error: expect.stringMatching(message) as unknown }])
    expect(await engine.submitInput('hello')).toEqual({ accepted: true })
    expect(ends[1]).not.toHaveProperty('error')
  })

  it('fails with a way out when no plugin talks to a model', async () => {
    const engine = await new Lab().engine({ plugins: [agentLoop()] })
    expect(await engine.submitInput('hello')).toMatchObject({ failed: 1, error: { code: 'PRECONDITION' } })
  })

  it('gives the model a result that tells what was wrong with a call', async () => {
    const engine = await new Lab().engine({
      plugins: agent(() => {
        throw new NexusError('UNAVAILABLE', 'the shutters are down')
      }),
      blocks,
    })
    const results = collect(engine, 'tool.result')
    await engine.submitInput('weather')
    await engine.submitInput('call jump')
    await engine.submitInput('call look')
    engine.bus.subscribe('before:tool.invoke', () => ({ vetoed: true, reason: 'not now' }))
    await engine.submitInput('call look')
    expect(results.map(({ error }) => error)).toEqual([
      'the shutters are down',
      'the shutters are down',
      'there is no tool "jump"; there are: look',
      expect.stringContaining('city: '),
      'refused: not now',
    ])
    expect((await conversation(engine)).filter(({ role }) => role === 'tool')).toHaveLength(5)
  })

  it('is not begun where a gate refuses the request', async () => {
    const engine = await new Lab().engine({ plugins: agent(), blocks })
    const requests = collect(engine, 'llm.request')
    engine.bus.subscribe('before:llm.request', () => ({ vetoed: true, reason: 'no money left' }))
    expect(await engine.submitInput('hello')).toMatchObject({ failed: 1, error: { message: 'no money left' } })
    expect(requests).toEqual([])
  })
})

describe('cancelling', () => {
  it('stops the tool and ends the turn with the reason; the calls that it left are answered for the next one', async () => {
    let running = false
    const engine = await new Lab().engine({
      plugins: agent(async (_city, { signal }) => {
        running = true
        await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error)))
      }),
      blocks,
    })
    const ends = collect(engine, 'agent.turn.end')
    const requests = collect<{ messages: { role: string; content: string }[] }>(engine, 'llm.request')
    const turn = engine.submitInput('weather')
    await until(() => running)
    await cancel(engine, 'turn-1')
    const outcome = await turn
    expect(outcome).toEqual({ accepted: true, turnError: 'turn turn-1 was cancelled: enough' })
    expect(ends).toMatchObject([{ turn_id: 'turn-1', error: 'turn turn-1 was cancelled: enough' }])
    await engine.submitInput('hello')
    expect(requests.at(-1)?.messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'tool', 'tool', 'user'])
    expect(requests.at(-1)?.messages[3]?.content).toMatch(/not answered/)
  })

  it('ends the turn also where the tool takes no notice', async () => {
    let running = false
    const engine = await new Lab().engine({
      plugins: agent(() => {
        running = true
        return new Promise(() => undefined)
      }),
      blocks,
      engine: { shutdown: { drain_timeout: '200ms' } },
    })
    const turn = engine.submitInput('weather')
    await until(() => running)
    await cancel(engine, 'turn-1')
    expect(await turn).toEqual({ accepted: true, turnError: 'turn turn-1 was cancelled: enough' })
    expect(await engine.submitInput('hello')).toEqual({ accepted: true })
  })
})

describe('a second input', () => {
  async function heldEngine(
    secondInput: 'wait' | 'refuse',
  ): Promise<{ engine: Engine; release: () => void; starts: unknown[] }> {
    let release = (): void => undefined
    const held = new Promise<void>((resolve) => {
      release = resolve
    })
    const engine = await new Lab().engine({
      plugins: agent(() => held),
      blocks: { ...blocks, 'nexus.agent.loop': { second_input: secondInput } },
    })
    return { engine, release, starts: collect(engine, 'agent.turn.start') }
  }

  it('is refused at once in its outcome', async () => {
    const { engine, release, starts } = await heldEngine('refuse')
    const first = engine.submitInput('weather')
    // Also before the turn of the first one has begun.
    const refused = { accepted: false, reason: 'a turn is under way: wait for it, or cancel it' }
    expect(await engine.submitInput('hello')).toEqual(refused)
    await until(() => starts.length === 1)
    expect(await engine.submitInput('hello')).toEqual(refused)
    release()
    expect(await first).toEqual({ accepted: true })
    expect(await engine.submitInput('hello')).toEqual({ accepted: true })
    expect(starts).toHaveLength(2)
  })

  it('waits in its place where nobody refuses it, and says that it waits', async () => {
    const { engine, release, starts } = await heldEngine('wait')
    const waits = collect(engine, 'io.wait')
    const inputs = ['weather', 'hello', 'call none'].map((input) => engine.submitInput(input))
    await until(() => waits.length === 2)
    release()
    expect(await Promise.all(inputs)).toEqual(inputs.map(() => ({ accepted: true })))
    expect(waits).toMatchObject([{ content: 'hello' }, { content: 'call none' }])
    expect(starts).toHaveLength(3)
    const said = (await conversation(engine)).filter(({ role }) => role === 'user').map(({ content }) => content)
    expect(said).toEqual(['weather', 'hello', 'call none'])
  })

  it('waits for the turn before it', async () => {
    const { engine, release, starts } = await heldEngine('wait')
    const input = { session_id: engine.sessionId }
    const both = [
      engine.bus.emit('io.input', { ...input, content: 'weather' }),
      engine.bus.emit('io.input', { ...input, content: 'hello' }),
    ]
    await until(() => starts.length === 1)
    release()
    await Promise.all(both)
    expect(starts).toMatchObject([{ turn_id: 'turn-1' }, { turn_id: 'turn-2' }])
    expect((await conversation(engine)).filter(({ role }) => role === 'user')).toMatchObject([
      { content: 'weather', turn_id: 'turn-1' },
      { content: 'hello', turn_id: 'turn-2' },
    ])
  })

  it('is refused where the configuration says so', async () => {
    const { engine, release, starts } = await heldEngine('refuse')
    const first = engine.submitInput('weather')
    await until(() => starts.length === 1)
    const payload = { content: 'hello', session_id: engine.sessionId }
    expect(await engine.bus.emitVetoable('before:io.input', payload)).toMatchObject({ vetoed: true })
    release()
    await first
    expect(await engine.bus.emitVetoable('before:io.input', payload)).toEqual({ vetoed: false })
  })
})

describe('an end of the session within a turn', () => {
  it('leaves the turn open, and the next run takes it up again under its number', async () => {
    const lab = new Lab()
    let calls = 0
    const plugins = agent(async (_city, { signal }) => {
      if (++calls > 2) return 'sun'
      return await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error)))
    })
    const first = await lab.engine({ plugins, blocks, engine: { shutdown: { drain_timeout: '2s' } } })
    void first.submitInput('weather')
    await until(() => calls === 1)
    await first.stop()
    calls = 2
    const second = await lab.engine({ plugins, blocks, recallSessionId: first.sessionId })
    await second.bus.drain({ timeoutMs: 20_000 })
    expect(second.session.meta().turnCount).toBe(1)
    expect((await conversation(second)).map(({ role, turn_id }) => `${String(role)} ${String(turn_id)}`)).toEqual([
      'user turn-1',
      'assistant turn-1',
      'tool turn-1',
      'tool turn-1',
      'assistant turn-1',
    ])
  })
})
