import * as v from 'valibot'
import { describe, expect, it } from 'vitest'
import { never, settle } from '@nexus/host/testing'
import { newHost, notingPlugin } from '../../test/plugin-fixture.ts'
import type { NexusEvent } from '../bus/event.ts'
import type { Plugin, PluginContext } from './plugin.ts'

describe('coming up and going down', () => {
  it('follows the dependencies, one after the other, and reverses them', async () => {
    const log: string[] = []
    const slow = notingPlugin('a', log, {
      init: async () => {
        await settle()
        log.push('init a')
      },
    })
    const { host } = await newHost([notingPlugin('b', log, { dependencies: ['a'] }), slow])
    expect(host.pluginIds).toEqual(['a', 'b'])
    await host.init()
    await host.ready()
    await host.shutdown({ timeoutMs: 1000 })
    await host.shutdown({ timeoutMs: 1000 })
    expect(log).toEqual(['init a', 'init b', 'ready a', 'ready b', 'shutdown b', 'shutdown a'])
  })

  it('needs no more than an init', async () => {
    const { host } = await newHost([{ id: 'a', name: 'A', version: '1', init: () => undefined }])
    await host.init()
    await host.ready()
    await host.shutdown({ timeoutMs: 1000 })
    expect(host.pluginIds).toEqual(['a'])
  })

  it('is undone in reverse when an init fails; the error names the plugin and keeps its cause', async () => {
    const log: string[] = []
    const cause = new Error('no model file')
    const failing = notingPlugin('c', log, { init: () => Promise.reject(cause) })
    const { host } = await newHost([notingPlugin('a', log), notingPlugin('b', log), failing, notingPlugin('d', log)])
    await expect(host.init()).rejects.toMatchObject({
      code: 'INTERNAL',
      key: 'c',
      cause,
      message: 'init of plugin "c" failed: no model file',
    })
    expect(log).toEqual(['init a', 'init b', 'shutdown b', 'shutdown a'])
  })

  it('is undone in reverse when a ready fails', async () => {
    const log: string[] = []
    const failing = notingPlugin('b', log, {
      ready: () => {
        throw new Error('not yet')
      },
    })
    const { host } = await newHost([notingPlugin('a', log), failing])
    await host.init()
    await expect(host.ready()).rejects.toThrow('ready of plugin "b" failed: not yet')
    expect(log).toEqual(['init a', 'init b', 'ready a', 'shutdown b', 'shutdown a'])
  })

  it('is undone too when subscribing fails', async () => {
    const log: string[] = []
    const failing = notingPlugin('b', log, { subscriptions: [{ type: '', handler: () => 1 }] })
    const { host, bus } = await newHost([notingPlugin('a', log), failing])
    await expect(host.init()).rejects.toThrow(/no event type/)
    expect(log).toEqual(['init a', 'init b', 'shutdown a'])
    await bus.emit('x', 1)
  })

  it('is bounded: a hanging init or ready fails by name, and its late end harms nothing', async () => {
    const log: string[] = []
    let failLate!: (error: Error) => void
    const hanging = notingPlugin('b', log, {
      init: () =>
        new Promise((_, reject) => {
          failLate = reject
        }),
    })
    const { host, clock } = await newHost([notingPlugin('a', log), hanging], '', { stepTimeoutMs: 500 })
    const booting = host.init().catch((error: unknown) => error)
    await settle()
    await clock.advance(500)
    expect(await booting).toMatchObject({
      code: 'UNAVAILABLE',
      message: expect.stringContaining('init of plugin "b"'),
    })
    failLate(new Error('late'))
    await settle()
    expect(log).toEqual(['init a', 'shutdown a'])
    expect(clock.pendingTimers).toBe(0)
  })

  it('goes on behind a shutdown that fails, and leaves time for others behind one that hangs', async () => {
    const log: string[] = []
    const { host, clock, logger } = await newHost([
      notingPlugin('a', log),
      notingPlugin('b', log, { shutdown: () => Promise.reject(new Error('stuck handle')) }),
      notingPlugin('c', log, { shutdown: () => never }),
    ])
    await host.init()
    const stopping = host.shutdown({ timeoutMs: 3000 })
    await settle()
    await clock.advance(1000)
    await stopping
    expect(log).toEqual(['init a', 'init b', 'init c', 'shutdown a'])
    expect(logger.lines.map(({ level, fields }) => [level, fields.plugin])).toEqual([
      ['error', 'c'],
      ['error', 'b'],
    ])
  })
})

describe('the context of a plugin', () => {
  it('hands it what is its own', async () => {
    let context!: PluginContext
    const { host, logger } = await newHost(
      [notingPlugin('nexus.a', [], { init: (given) => void (context = given) })],
      'plugins: {nexus.a: {x: 1}}',
    )
    await host.init()
    context.logger.info({ more: 1 }, 'hello')
    expect(logger.lines).toEqual([{ level: 'info', fields: { plugin: 'nexus.a', more: 1 }, message: 'hello' }])
    expect(context).toMatchObject({
      config: { x: 1 },
      pluginId: 'nexus.a',
      instanceId: 'i1',
      dataDir: '/data/nexus.a',
      appDataDir: '/app/nexus.a',
      agentDataDir: '/agent/nexus.a',
      engineInfo: { version: '1.2.3', sessionId: 's1' },
    })
    expect(context.storage('app').path).toBe('app of nexus.a')
    expect(context.session).toMatchObject({ id: 's1' })
    expect(Object.keys(context).toSorted()).toEqual([
      'agentDataDir',
      'appDataDir',
      'bus',
      'config',
      'dataDir',
      'engineInfo',
      'instanceId',
      'journal',
      'logger',
      'pluginId',
      'session',
      'storage',
    ])
  })

  it('makes directories only when they are asked for', async () => {
    const asked: string[] = []
    const note = (id: string): string => {
      asked.push(id)
      return id
    }
    const { host } = await newHost([notingPlugin('a', [])], '', {
      directories: { data: note, appData: note, agentData: note },
    })
    await host.init()
    expect(asked).toEqual([])
  })

  it('names the plugin as the source of its events, also through an event after an await', async () => {
    const sources: unknown[] = []
    const plugin = notingPlugin('a', [], {
      init: ({ bus }) => {
        bus.subscribe('x', async (event) => {
          await settle()
          await event.emit('child', 1)
          await event.emit('child', 1, { source: 'other' })
          await event.emitVetoable('before:child', 1)
        })
      },
    })
    const { host, bus } = await newHost([plugin])
    await host.init()
    bus.subscribeAll(({ type, source, causation }) => sources.push([type, source, causation.depth]))
    await bus.emit('x', 1)
    expect(sources).toEqual([
      ['child', 'a', 1],
      ['child', 'other', 1],
      ['before:child', 'a', 1],
      ['x', 'core', 0],
    ])
  })

  it('gives handlers the whole event, and lets them veto', async () => {
    let seen: Partial<NexusEvent> = {}
    const plugin = notingPlugin('a', [], {
      init: ({ bus }) => {
        bus.subscribe('before:x', (event) => {
          const { type, id, timestamp, source, payload, causation } = event
          seen = { type, id, timestamp, source, payload, causation }
          event.veto('no')
        })
      },
    })
    const { host, bus } = await newHost([plugin])
    await host.init()
    expect(await bus.emitVetoable('before:x', { a: 1 }, { source: 's' })).toEqual({ vetoed: true, reason: 'no' })
    expect(seen).toEqual({
      type: 'before:x',
      id: expect.any(String),
      timestamp: expect.any(String),
      source: 's',
      payload: { a: 1 },
      causation: expect.objectContaining({ depth: 0 }),
    })
    expect(bus.sharedVetoPriorities()).toEqual([])
  })
})

describe('subscriptions', () => {
  it('that a plugin declares begin once it is up, and all end before it is shut down', async () => {
    const log: string[] = []
    const plugin = notingPlugin('a', log, {
      init: async ({ bus }) => {
        bus.subscribe('x', () => log.push('own'), { priority: 5 })
        const off = bus.subscribe('x', () => log.push('ended'))
        off()
        await bus.emit('x', 'during init')
      },
      subscriptions: [
        { type: 'x', handler: () => log.push('declared'), filter: ({ payload }) => payload !== 'skip' },
        { type: '*', handler: ({ type }) => log.push(`any ${type}`) },
      ],
      shutdown: async ({ bus }) => {
        log.push('shutdown')
        await bus.emit('x', 'during shutdown')
      },
    })
    const { host, bus } = await newHost([plugin])
    await host.init()
    expect(log).toEqual(['own'])
    log.length = 0
    await bus.emit('x', 1)
    await bus.emit('x', 'skip')
    expect(log).toEqual(['declared', 'own', 'any x', 'own', 'any x'])
    log.length = 0
    await host.shutdown({ timeoutMs: 1000 })
    await bus.emit('x', 1)
    expect(log).toEqual(['shutdown'])
  })

  it('of a plugin whose init fails are gone', async () => {
    const log: string[] = []
    const plugin = notingPlugin('a', log, {
      init: ({ bus }) => {
        bus.subscribe('x', () => log.push('x'))
        throw new Error('boom')
      },
    })
    const { host, bus } = await newHost([plugin])
    await expect(host.init()).rejects.toThrow('boom')
    await bus.emit('x', 1)
    expect(log).toEqual([])
  })
})

describe('a configuration block', () => {
  const schema = v.strictObject({
    size: v.optional(v.number(), 3),
    deep: v.optional(v.strictObject({ url: v.string() })),
  })
  const withSchema = (id: string, log: string[]): Plugin =>
    notingPlugin(id, log, {
      configSchema: schema,
      init: ({ config }) => void log.push(`${id} ${JSON.stringify(config)}`),
    })

  it("is checked and completed by the plugin's schema; absent or empty, it is a map without keys", async () => {
    const log: string[] = []
    const { host } = await newHost(
      [
        withSchema('a', log),
        withSchema('b', log),
        notingPlugin('c', log, { init: ({ config }) => void log.push(JSON.stringify(config)) }),
      ],
      'plugins:\n  a: {size: 5}\n  b:\n',
    )
    await host.init()
    expect(log).toEqual(['a {"size":5}', 'b {"size":3}', '{}'])
  })

  it('that is wrong fails the boot with all problems of all plugins and their lines, before any plugin is touched', async () => {
    const log: string[] = []
    const { host } = await newHost(
      [withSchema('a', log), withSchema('b', log)],
      'plugins:\n  a:\n    size: big\n    deep:\n      url: 5\n  b: {siz: 1}\n',
    )
    await expect(host.init()).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
      message: expect.stringMatching(
        /^test\.yaml has 3 problems:\n {2}test\.yaml:3:5: plugins\.a\.size: .*\n {2}test\.yaml:5:7: plugins\.a\.deep\.url: .*\n {2}test\.yaml:6:7: plugins\.b\.siz: /,
      ),
    })
    expect(log).toEqual([])
  })

  it('types what the plugin gets', async () => {
    let doubled = 0
    const typed: Plugin<v.InferOutput<typeof schema>> = {
      id: 'a',
      name: 'A',
      version: '1',
      configSchema: schema,
      init: ({ config }) => void (doubled = config.size * 2),
    }
    await (await newHost([typed], 'plugins: {a: {size: 4}}')).host.init()
    expect(doubled).toBe(8)
  })

  it('may be checked by any Standard Schema, also an asynchronous one with paths of its own form', async () => {
    const configSchema: Plugin['configSchema'] = {
      '~standard': {
        version: 1,
        vendor: 'own',
        validate: async (value) =>
          (value as { ok?: boolean }).ok === true
            ? { value: 'fine' }
            : { issues: [{ message: 'not ok', path: ['list', { key: 0 }, Symbol('s')] }, { message: 'no path' }] },
      },
    }
    const configs: unknown[] = []
    const plugin = notingPlugin('a', [], { configSchema, init: ({ config }) => void configs.push(config) })
    await (await newHost([plugin], 'plugins: {a: {ok: true}}')).host.init()
    expect(configs).toEqual(['fine'])
    const { host } = await newHost([plugin], 'plugins: {a: {}}')
    await expect(host.init()).rejects.toThrow(/plugins\.a\.list\[0\]\."Symbol\(s\)": not ok\n.*plugins\.a: no path/)
  })

  it('of a plugin that is not active is pointed out', async () => {
    const { host, logger } = await newHost([notingPlugin('memory', [])], 'plugins: {memroy: {x: 1}, memory: {}}')
    await host.init()
    expect(logger.lines).toEqual([expect.objectContaining({ level: 'warn', fields: { plugins: ['memroy'] } })])
  })
})
