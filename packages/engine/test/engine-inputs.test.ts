import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Engine, Plugin, PluginContext } from '../src/index.ts'
import { EngineLab } from './engine-fixture.ts'

let lab: EngineLab

beforeEach(() => {
  lab = new EngineLab()
})

afterEach(() => lab.close())

function plugin(init: (context: PluginContext) => void, id = 'test.plugin'): Plugin {
  return { id, name: id, version: '1.0.0', init }
}

/** An agent whose turns take some time, and what happened in which order. */
async function slowAgent(): Promise<{ engine: Engine; log: string[] }> {
  const log: string[] = []
  const engine = await lab.booted('a', {
    stored: false,
    plugins: [
      plugin(({ bus }) => {
        bus.subscribe('before:io.input', ({ payload }) => void log.push(`gate ${payload.content}`))
        bus.subscribe('io.input', async ({ payload }) => {
          log.push(`begin ${payload.content}`)
          await new Promise((resolve) => setTimeout(resolve, 5))
          log.push(`end ${payload.content}`)
        })
      }),
    ],
  })
  return { engine, log }
}

describe('inputs', () => {
  it('that overlap are taken one after the other, gates included', async () => {
    const { engine, log } = await slowAgent()
    await Promise.all(['one', 'two', 'three'].map((content) => engine.submitInput(content)))
    expect(log).toEqual(
      ['one', 'two', 'three'].flatMap((content) => [`gate ${content}`, `begin ${content}`, `end ${content}`]),
    )
  })

  it('that a handler submits without waiting are taken after its own', async () => {
    const { engine, log } = await slowAgent()
    engine.bus.subscribe('io.input', ({ payload }) => {
      if (payload.content === 'one') void engine.submitInput('two')
    })
    await engine.submitInput('one')
    await engine.submitInput('three')
    expect(log.filter((line) => !line.startsWith('gate'))).toEqual(
      ['one', 'two', 'three'].flatMap((content) => [`begin ${content}`, `end ${content}`]),
    )
  })

  it('that waited until the session ended are refused, not lost in silence', async () => {
    const { engine, log } = await slowAgent()
    const first = engine.submitInput('one')
    const second = engine.submitInput('two')
    await Promise.all([engine.stop(), first, expect(second).rejects.toMatchObject({ code: 'PRECONDITION' })])
    expect(log.at(-1)).toBe('end one')
  })
})

describe('the outcome of an input', () => {
  it('tells how many handlers failed, gates included, and what the first of them threw', async () => {
    const first = new Error('no tool')
    const engine = await lab.booted('a', {
      stored: false,
      plugins: [
        plugin(({ bus }) => {
          bus.subscribe('io.input', () => {
            throw first
          })
          bus.subscribe('io.input', () => Promise.reject(new Error('no model')), { priority: 1 })
          bus.subscribe('io.input', (event) => event.emit('nested', {}), { priority: 2 })
          bus.subscribe('nested', () => {
            throw new Error('not of the input')
          })
        }),
      ],
    })
    expect(await engine.submitInput('hi')).toEqual({ accepted: true, failed: 2, error: first })
    engine.bus.subscribe('before:io.input', () => {
      throw new Error('broken gate')
    })
    expect(await engine.submitInput('hi')).toMatchObject({ accepted: true, failed: 3, error: new Error('broken gate') })
  })

  it('says nothing of failures where there are none, also when a gate refused', async () => {
    const engine = await lab.booted('a', { stored: false, plugins: [] })
    expect(await engine.submitInput('hi')).toEqual({ accepted: true })
    engine.bus.subscribe('before:io.input', () => ({ vetoed: true, reason: 'closed' }))
    expect(await engine.submitInput('hi')).toEqual({ accepted: false, reason: 'closed' })
  })
})

describe('core.ready', () => {
  it('is when input is taken, by the embedder and by a plugin, awaited or not', async () => {
    const inputs: string[] = []
    const engine = await lab.engine('a', {
      stored: false,
      plugins: [
        plugin(({ bus, session }) => {
          bus.subscribe('io.input', ({ payload }) => void inputs.push(payload.content))
          bus.subscribe('core.ready', (event) => event.emit('io.input', { content: 'plugin', session_id: session.id }))
        }),
      ],
    })
    engine.bus.subscribe('core.ready', async () => {
      expect(await engine.submitInput('embedder')).toEqual({ accepted: true })
    })
    await engine.boot()
    expect(inputs.toSorted()).toEqual(['embedder', 'plugin'])
    expect(engine.status().phase).toBe('running')
  })
})

describe('what a plugin is handed', () => {
  it('has no member that is the engine’s alone, and works', async () => {
    let context!: PluginContext
    await lab.booted('a', { stored: false, plugins: [plugin((given) => void (context = given))] })
    const { bus, session, journal } = context
    const storage = context.storage('session')
    const members = (view: object): string[] => {
      const names: string[] = []
      for (
        let at: object | null = view;
        at !== null && at !== Object.prototype;
        at = Object.getPrototypeOf(at) as object | null
      )
        names.push(...Object.getOwnPropertyNames(at))
      return names
    }
    const engines = [
      'attachBus',
      'setRecorder',
      'setAfterDispatch',
      'close',
      'append',
      'unsubscribeAll',
      'saveMeta',
      'useBlobHooks',
    ]
    expect([bus, session, journal, storage].flatMap(members).filter((name) => engines.includes(name))).toEqual([])
    await session.writeFile('files/a.md', 'a')
    expect((await session.readFile('files/a.md')).toString()).toBe('a')
    storage.put('k', 'v')
    expect(storage.tx(() => storage.get('k')?.toString())).toBe('v')
    expect(journal.lastSeq).toBeGreaterThan(0)
  })

  it('serialises like the event that an embedder gets', async () => {
    const seen: string[] = []
    const engine = await lab.booted('a', {
      stored: false,
      plugins: [
        plugin(
          ({ bus }) =>
            void bus.subscribe('io.input', (event) => seen.push(JSON.stringify(event), JSON.stringify({ ...event }))),
        ),
      ],
    })
    engine.bus.subscribe('io.input', (event) => void seen.push(JSON.stringify(event)))
    await engine.submitInput('hi')
    expect(new Set(seen).size).toBe(1)
    expect(JSON.parse(seen[0] as string)).toMatchObject({ type: 'io.input', payload: { content: 'hi' } })
  })
})
