import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Engine, Plugin } from '../src/index.ts'
import { EngineLab } from './engine-fixture.ts'

let lab: EngineLab

beforeEach(() => {
  lab = new EngineLab()
})

afterEach(() => lab.close())

interface Seen {
  inputs: string[]
  results: { id: string; error: string | undefined }[]
}

/** Starts a turn for each input; calls two tools, of which the second answers only when `answers`. */
function agent(seen: Seen, answers: boolean): Plugin {
  return {
    id: 'test.agent',
    name: 'Agent',
    version: '1.0.0',
    init({ bus }) {
      bus.subscribe('tool.result', ({ payload }) => void seen.results.push({ id: payload.id, error: payload.error }))
      bus.subscribe('io.input', async (event) => {
        seen.inputs.push(event.payload.content)
        const turn = { turn_id: `turn-of-${event.id}`, session_id: event.causation.session_id }
        await event.emit('agent.turn.start', turn)
        for (const id of ['call-1', 'call-2']) {
          await event.emit('tool.invoke', { id, name: 'weigh', arguments: {}, turn_id: turn.turn_id })
          if (id === 'call-2' && !answers) await new Promise(() => undefined)
          await event.emit('tool.result', { id, name: 'weigh', output: '3 kg', turn_id: turn.turn_id })
        }
        await event.emit('agent.turn.end', turn)
      })
    },
  }
}

async function killedWithinTurn(): Promise<string> {
  const engine = await lab.booted('a', {
    stored: false,
    plugins: [agent({ inputs: [], results: [] }, false)],
    config: { engine: { shutdown: { drain_timeout: '200ms' } } },
  })
  const invoked = new Promise<void>((resolve) => {
    engine.bus.subscribe('tool.invoke', ({ payload }) => payload.id === 'call-2' && resolve())
  })
  void engine.submitInput('How heavy is it?')
  await invoked
  await engine.abandon()
  await engine.stop()
  return engine.sessionId
}

async function resumed(recallSessionId: string, seen: Seen, restart: 'refire' | 'discard' = 'refire'): Promise<Engine> {
  const root = lab.sessionsRoot('a')
  return await lab.booted('a', {
    stored: false,
    recallSessionId,
    useConfigSnapshot: false,
    plugins: [agent(seen, true)],
    core: { sessions: { root, retention: 0, restart }, storage: { root: `${root}/..` } },
  })
}

describe('a session whose last run ended within a turn', () => {
  it('answers the tool call that was under way as interrupted, once, and runs no tool by itself', async () => {
    const sessionId = await killedWithinTurn()
    const seen: Seen = { inputs: [], results: [] }
    const engine = await resumed(sessionId, seen, 'discard')
    expect(seen.inputs).toEqual([])
    expect(seen.results).toEqual([{ id: 'call-2', error: expect.stringContaining('interrupted') as string }])
    await engine.stop()
    const again: Seen = { inputs: [], results: [] }
    await resumed(sessionId, again, 'discard')
    expect(again.results).toEqual([])
  })

  it('gives the input to the agent again, after that, and only in the next run', async () => {
    const sessionId = await killedWithinTurn()
    const seen: Seen = { inputs: [], results: [] }
    const engine = await resumed(sessionId, seen)
    expect(await engine.bus.drain({ timeoutMs: 10_000 })).toBe(true)
    expect(seen.inputs).toEqual(['How heavy is it?'])
    expect(seen.results.map(({ id }) => id)).toEqual(['call-2', 'call-1', 'call-2'])
    await engine.stop()
    const again: Seen = { inputs: [], results: [] }
    const third = await resumed(sessionId, again)
    await third.bus.drain({ timeoutMs: 10_000 })
    expect(again.inputs).toEqual([])
  })

  it('gives an input that ends every process to the agent once more, and then no further', async () => {
    const sessionId = await killedWithinTurn()
    const inputs: string[][] = []
    for (let boot = 0; boot < 3; boot += 1) {
      const seen: Seen = { inputs: [], results: [] }
      const engine = await lab.booted('a', {
        stored: false,
        recallSessionId: sessionId,
        plugins: [agent(seen, false)],
        config: { engine: { shutdown: { drain_timeout: '200ms' } } },
      })
      await engine.bus.drain({ timeoutMs: 100 })
      await engine.abandon()
      await engine.stop()
      inputs.push(seen.inputs)
    }
    expect(inputs).toEqual([['How heavy is it?'], [], []])
  })
})

describe('an input that was journaled before its turn began', () => {
  it('is given to the agent again, unless it is to be discarded', async () => {
    const engine = await lab.booted('a', { stored: false, plugins: [] })
    const came = new Promise<void>((resolve) => {
      engine.bus.subscribe('io.input', () => (resolve(), new Promise(() => undefined)))
    })
    void engine.submitInput('How heavy is it?')
    await came
    await engine.abandon()
    await engine.stop()
    const discarding: Seen = { inputs: [], results: [] }
    await (await resumed(engine.sessionId, discarding, 'discard')).abandon()
    const seen: Seen = { inputs: [], results: [] }
    const again = await resumed(engine.sessionId, seen)
    await again.bus.drain({ timeoutMs: 10_000 })
    expect([discarding.inputs, seen.inputs]).toEqual([[], ['How heavy is it?']])
  })
})

describe('a session whose last run ended within a turn, with restart: last_commit', () => {
  /** Writes down each input, and ends the turn unless it is told to hang. */
  function writer(inputs: string[]): Plugin {
    return {
      id: 'test.writer',
      name: 'Writer',
      version: '1.0.0',
      init({ bus, session }) {
        bus.subscribe('io.input', async (event) => {
          const { content } = event.payload
          inputs.push(content)
          const turn = { turn_id: event.id, session_id: session.id }
          await event.emit('agent.turn.start', turn)
          await session.appendFile('context/conversation.jsonl', `${content}\n`)
          if (content === 'hang' && inputs.length === 2) await new Promise(() => undefined)
          await event.emit('agent.turn.end', turn)
        })
      },
    }
  }

  const CONVERSATION = 'context/conversation.jsonl'
  const core = (): object => ({
    sessions: { root: lab.sessionsRoot('a'), retention: 0, restart: 'last_commit' },
    storage: { root: `${lab.dir}/a` },
  })
  const config = { engine: { shutdown: { drain_timeout: '300ms' as const } } }

  async function killedIn(stored: boolean, unstoredTurn = false): Promise<string> {
    const engine = await lab.booted('a', { stored, plugins: [writer(unstoredTurn ? ['', '', ''] : [])], config })
    await engine.submitInput('one')
    if (unstoredTurn) {
      lab.backend.faults.failWhen(({ op }) => op === 'put', new Error('503'))
      await engine.submitInput('two')
    }
    const hung = new Promise<void>((resolve) => {
      // After the writer's own write, or in its place.
      if (!unstoredTurn)
        engine.bus.subscribe('session.file.updated', ({ payload: { path } }) => path === CONVERSATION && resolve())
      else engine.bus.subscribe('io.input', () => (resolve(), new Promise(() => undefined)), { priority: -1 })
    })
    void engine.submitInput('hang')
    await hung
    await engine.abandon()
    await engine.stop()
    lab.backend.faults.heal()
    return engine.sessionId
  }

  async function resumedIn(
    sessionId: string,
    stored = true,
  ): Promise<{ engine: Engine; inputs: string[]; stale: unknown[] }> {
    const [inputs, stale]: [string[], unknown[]] = [[], []]
    const options = { stored, recallSessionId: sessionId, plugins: [writer(inputs)], core: core(), config }
    const engine = await lab.engine('a', options)
    engine.bus.subscribe('session.local.stale', ({ payload }) => void stale.push(payload))
    await engine.boot()
    await engine.bus.drain({ timeoutMs: 10_000 })
    return { engine, inputs, stale }
  }

  it('is taken back to the last commit, and given the input again', async () => {
    const { engine, inputs, stale } = await resumedIn(await killedIn(true))
    expect(inputs).toEqual(['hang'])
    expect((await engine.session.readFile('context/conversation.jsonl')).toString()).toBe('one\nhang\n')
    expect(stale).toMatchObject([{ forked: false }])
    await engine.stop()
    const again = await resumedIn(engine.sessionId)
    expect([again.inputs, again.stale]).toEqual([[], []])
  })

  it('goes on with the local tree where no commit is, as with refire', async () => {
    const { engine, inputs } = await resumedIn(await killedIn(false), false)
    expect(inputs).toEqual(['hang'])
    expect((await engine.session.readFile('context/conversation.jsonl')).toString()).toBe('one\nhang\nhang\n')
  })

  it('never gives up a whole turn that the store does not have', async () => {
    const { engine, stale } = await resumedIn(await killedIn(true, true))
    expect((await engine.session.readFile('context/conversation.jsonl')).toString()).toBe('one\ntwo\nhang\n')
    expect(stale).toEqual([])
  })
})
