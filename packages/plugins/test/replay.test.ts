import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { type ConfigInput, Engine, type Plugin, type ReplayReport, silentLogger } from '@nexus/engine'
import { describe, expect, it } from 'vitest'
import { agentLoop, cancelControl, conversationMemory, fileTools, noteTools, scriptedModel } from '../src/index.ts'
import { Lab, until } from './lab.ts'

const answers = [
  {
    input: '/^note (\\w+)$/',
    steps: [
      { tool_calls: [{ name: 'add_note', arguments: { title: '{{1}}', text: 'x' } }, { name: 'no_such_tool' }] },
      { tool_calls: [{ name: 'list_files' }], cost_usd: 0.5 },
      { content: 'noted {{1}}' },
    ],
  },
  {
    input: 'write',
    steps: [{ tool_calls: [{ name: 'append_file', arguments: { path: 'a', content: 'x' } }] }, { content: 'ok' }],
  },
  { input: 'hello', steps: [{ content: 'hi' }] },
]
const blocks = { 'nexus.llm.scripted': { answers } }

/** A model that says something else at every call, and counts them: no replay may ask it. */
function whimsicalModel(): { plugin: Plugin; calls: () => number } {
  let calls = 0
  return {
    calls: () => calls,
    plugin: {
      id: 'test.whimsical',
      name: 'Whimsical',
      version: '1',
      init: ({ bus }) =>
        void bus.subscribe('llm.request', (event) =>
          event.emit('llm.response', {
            content: `answer ${++calls}`,
            usage: { prompt_tokens: calls, completion_tokens: 1, total_tokens: calls + 1 },
          }),
        ),
    },
  }
}

const agent = (...more: Plugin[]): Plugin[] => [conversationMemory(), agentLoop(), fileTools(), noteTools(), ...more]

async function replay(lab: Lab, engine: Engine, plugins: readonly Plugin[]): Promise<ReplayReport> {
  const core: ConfigInput['core'] = {
    sessions: { root: join(lab.dir, 'host', 'sessions') },
    storage: { root: join(lab.dir, 'host') },
  }
  return await Engine.replay(engine.sessionId, { core }, { plugins, logger: silentLogger })
}

function journalOf(lab: Lab, { sessionId }: Engine): string {
  return join(lab.dir, 'host', 'sessions', sessionId, 'journal', 'events.jsonl')
}

describe('a replay', () => {
  it('is event for event what happened, asks nothing outside, and leaves the session alone', async () => {
    const lab = new Lab()
    const model = whimsicalModel()
    const engine = await lab.engine({ plugins: agent(model.plugin) })
    for (const input of ['one', 'two', 'three']) await engine.submitInput(input)
    await engine.stop()
    const before = readFileSync(journalOf(lab, engine))
    const report = await replay(lab, engine, agent(model.plugin))
    expect(report).toEqual({ turns: 3, events: expect.any(Number) as unknown })
    expect(report.events).toBeGreaterThan(3 * 5)
    expect(model.calls()).toBe(3)
    expect(readFileSync(journalOf(lab, engine)).equals(before)).toBe(true)
  })

  it('says again what tools said, also those that change or are not there, over several runs', async () => {
    const lab = new Lab()
    const first = await lab.engine({ plugins: agent(scriptedModel()), blocks })
    for (const input of ['note one', 'write', 'note two']) await first.submitInput(input)
    await first.stop()
    const second = await lab.engine({ plugins: agent(scriptedModel()), blocks, recallSessionId: first.sessionId })
    for (const input of ['write', 'hello']) await second.submitInput(input)
    await second.stop()
    const report = await replay(lab, first, agent(scriptedModel()))
    expect(report).toEqual({ turns: 5, events: expect.any(Number) as unknown })
  })

  it('fails and cancels where that happened', async () => {
    const lab = new Lab()
    const control = cancelControl()
    let isHeld = false
    const held: Plugin = {
      id: 'test.held',
      name: 'Held',
      version: '1',
      init: ({ bus }) =>
        void bus.subscribe('tool.invoke', async ({ payload }) => {
          if (payload.name === 'no_such_tool') {
            isHeld = true
            await new Promise((resolve) => bus.subscribe('agent.turn.cancel', resolve))
          }
        }),
    }
    const plugins = (): Plugin[] => agent(scriptedModel(), control.plugin, held)
    const engine = await lab.engine({ plugins: plugins(), blocks })
    await engine.submitInput('nobody answers this')
    const cancelled = engine.submitInput('note one')
    await until(() => isHeld)
    await control.cancel('enough')
    expect((await cancelled).turnError).toContain('enough')
    await engine.submitInput('hello')
    await engine.stop()
    expect(await replay(lab, engine, plugins())).toEqual({ turns: 3, events: expect.any(Number) as unknown })
  })

  it('cancels where a tool never noticed that it was cancelled', async () => {
    const lab = new Lab()
    const control = cancelControl()
    let isHeld = false
    const deaf: Plugin = {
      id: 'test.deaf',
      name: 'Deaf',
      version: '1',
      init: ({ bus }) =>
        void bus.subscribe('tool.invoke', ({ payload }) => {
          isHeld = payload.name === 'no_such_tool'
          return isHeld ? new Promise(() => undefined) : undefined
        }),
    }
    const plugins = (): Plugin[] => agent(scriptedModel(), control.plugin, deaf)
    const engine = await lab.engine({ plugins: plugins(), blocks, engine: { shutdown: { drain_timeout: '500ms' } } })
    const cancelled = engine.submitInput('note one')
    await until(() => isHeld)
    await control.cancel('enough')
    expect(await cancelled).toEqual({ accepted: true, turnError: 'turn turn-1 was cancelled: enough' })
    await engine.submitInput('hello')
    await engine.stop()
    expect(await replay(lab, engine, plugins())).toEqual({ turns: 2, events: expect.any(Number) as unknown })
  })

  it.each([false, true])('compacts the conversation where that happened (by a model: %s)', async (summarize) => {
    const lab = new Lab()
    const model = whimsicalModel()
    const memory = { 'nexus.memory.conversation': { max_messages: 4, keep_messages: 2, summarize } }
    const engine = await lab.engine({ plugins: agent(model.plugin), blocks: memory })
    for (const input of ['one', 'two', 'three', 'four']) await engine.submitInput(input)
    await engine.stop()
    const calls = model.calls()
    expect(calls).toBeGreaterThan(summarize ? 4 : 3)
    expect(readFileSync(journalOf(lab, engine), 'utf8').includes('"role":"summary"')).toBe(summarize)
    const report = await replay(lab, engine, agent(model.plugin))
    expect(report).toEqual({ turns: 4, events: expect.any(Number) as unknown })
    expect(model.calls()).toBe(calls)
    // What follows from the end of a turn is compared, too.
    const path = journalOf(lab, engine)
    writeFileSync(path, readFileSync(path, 'utf8').replace('"type":"io.history.replay"', '"type":"io.history.other"'))
    expect(await replay(lab, engine, agent(model.plugin))).toMatchObject({
      firstDifference: { turn: 3, found: { type: 'io.history.replay' } },
    })
  })

  it.each([true, false])(
    'lets be missing what a kill cut off behind a turn, and nothing else (killed: %s)',
    async (killed) => {
      const lab = new Lab()
      const plugins = (): Plugin[] => agent(scriptedModel())
      const all = { ...blocks, 'nexus.memory.conversation': { max_messages: 4, keep_messages: 2 } }
      const first = await lab.engine({ plugins: plugins(), blocks: all })
      for (const input of ['hello', 'hello', 'hello']) await first.submitInput(input)
      await (killed ? first.abandon() : first.stop())
      const second = await lab.engine({ plugins: plugins(), blocks: all, recallSessionId: first.sessionId })
      await second.submitInput('hello')
      await second.stop()
      // As if the process had died before the compaction could tell of itself.
      const path = journalOf(lab, first)
      writeFileSync(path, readFileSync(path, 'utf8').replace('"type":"io.history.replay"', '"type":"core.cut"'))
      const { turns, firstDifference } = await replay(lab, first, plugins())
      expect(turns).toBe(killed ? 4 : 2)
      expect(firstDifference?.found?.type).toBe(killed ? undefined : 'io.history.replay')
    },
  )

  it('refuses what gates refused, for reasons of their own or not, and asks them the same', async () => {
    const lab = new Lab()
    let isOpen = false
    let asked = 0
    const gate: Plugin = {
      id: 'test.gate',
      name: 'Gate',
      version: '1',
      init: ({ bus }) => {
        bus.subscribe(
          'before:io.input',
          async (event) => {
            await event.emit<string>('test.asked', { count: ++asked })
            if (event.payload.content === 'bad') return { vetoed: true, reason: 'bad' }
            return isOpen ? undefined : { vetoed: true, reason: 'closed' }
          },
          { priority: 5 },
        )
        bus.subscribe('before:tool.invoke', ({ payload }) =>
          payload.name === 'no_such_tool' && isOpen ? { vetoed: true, reason: 'not now' } : undefined,
        )
      },
    }
    const plugins = (): Plugin[] => agent(scriptedModel(), gate)
    const engine = await lab.engine({ plugins: plugins(), blocks })
    const outcomes = []
    for (const input of ['hello', 'open', 'bad', 'note one', 'bad']) {
      if (input === 'open') isOpen = true
      else outcomes.push((await engine.submitInput(input)).accepted)
    }
    await engine.stop()
    expect(outcomes).toEqual([false, false, true, false])
    // The first refusal and that of the tool came from outside: the gate itself would let both pass now.
    isOpen = true
    asked = 0
    const closed = journalOf(lab, engine)
    expect(readFileSync(closed, 'utf8')).toContain('"veto_reason":"not now"')
    expect(await replay(lab, engine, plugins())).toEqual({ turns: 1, events: expect.any(Number) as unknown })
    expect(asked).toBe(4)
    isOpen = false
    asked = 0
    expect(await replay(lab, engine, plugins())).toMatchObject({
      turns: 0,
      firstDifference: { expected: { type: 'before:io.input' }, found: { vetoed: true, reason: 'closed' } },
    })
  })

  it('keeps what tools answered by their arguments', async () => {
    const lab = new Lab()
    const engine = await lab.engine({ plugins: agent(scriptedModel()), blocks })
    await engine.submitInput('note one')
    const cache = join(dirname(journalOf(lab, engine)), 'cache')
    const [kept = ''] = readdirSync(join(cache, 'list_files'))
    expect(JSON.parse(readFileSync(join(cache, 'list_files', kept), 'utf8'))).toMatchObject({
      tool: 'list_files',
      result: { id: 'call-turn-1-2-1', output: 'no files' },
    })
    expect(readdirSync(cache).toSorted()).toEqual(['add_note', 'list_files'])
  })

  it('counts an input that was interrupted and given again once', async () => {
    const lab = new Lab()
    const model = whimsicalModel()
    const first = await lab.engine({ plugins: agent(model.plugin) })
    await first.submitInput('one')
    first.bus.subscribe('llm.response', () => new Promise(() => undefined))
    void first.submitInput('two')
    await until(() => model.calls() === 2)
    await first.abandon()
    const second = await lab.engine({ plugins: agent(model.plugin), recallSessionId: first.sessionId })
    await second.submitInput('three')
    await second.stop()
    expect(model.calls()).toBe(4)
    expect(await replay(lab, first, agent(model.plugin))).toEqual({ turns: 3, events: expect.any(Number) as unknown })
  })

  it('names the first event that differs', async () => {
    const lab = new Lab()
    const engine = await lab.engine({ plugins: agent(scriptedModel()), blocks })
    for (const input of ['hello', 'write']) await engine.submitInput(input)
    await engine.stop()
    const path = journalOf(lab, engine)
    writeFileSync(
      path,
      readFileSync(path, 'utf8').replace('"content":"ok","role":"assistant"', '"content":"OK","role":"assistant"'),
    )
    expect(await replay(lab, engine, agent(scriptedModel()))).toMatchObject({
      turns: 1,
      firstDifference: {
        turn: 2,
        expected: { type: 'io.output', payload: { content: 'OK' } },
        found: { type: 'io.output', payload: { content: 'ok' } },
      },
    })
  })

  it('ends when a turn takes too long', async () => {
    const lab = new Lab()
    const engine = await lab.engine({ plugins: agent(scriptedModel()), blocks })
    await engine.submitInput('hello')
    await engine.stop()
    const stuck: Plugin = {
      id: 'test.stuck',
      name: 'Stuck',
      version: '1',
      init: ({ bus }) => void bus.subscribe('io.input', () => new Promise(() => undefined)),
    }
    const core: ConfigInput['core'] = { sessions: { root: join(lab.dir, 'host', 'sessions') } }
    const replaying = Engine.replay(
      engine.sessionId,
      { core, engine: { shutdown: { drain_timeout: '500ms' } } },
      { plugins: [stuck], logger: silentLogger, turnTimeoutMs: 50 },
    )
    await expect(replaying).rejects.toMatchObject({ code: 'UNAVAILABLE' })
  })

  it('runs a session that has no configuration of its own under the given one', async () => {
    const lab = new Lab()
    const model = whimsicalModel()
    const engine = await lab.engine({ plugins: agent(model.plugin) })
    await engine.submitInput('hello')
    await engine.stop()
    rmSync(join(dirname(journalOf(lab, engine)), '..', 'metadata', 'config-snapshot.yaml'))
    expect(await replay(lab, engine, agent(model.plugin))).toMatchObject({ turns: 1 })
  })

  it('needs the session on this machine', async () => {
    const core: ConfigInput['core'] = { sessions: { root: join(new Lab().dir, 'sessions') } }
    await expect(Engine.replay('none', { core }, { logger: silentLogger })).rejects.toMatchObject({ code: 'NOT_FOUND' })
  })
})
