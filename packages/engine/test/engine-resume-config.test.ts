import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { JournalReader } from '@nexus/journal'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Plugin } from '../src/index.ts'
import { keepingLogger } from '@nexus/host/testing'
import { EngineLab, scribe } from './engine-fixture.ts'

let lab: EngineLab

beforeEach(() => {
  lab = new EngineLab()
})

afterEach(() => lab.close())

const idle = (id: string, more: Partial<Plugin> = {}): Plugin => ({
  id,
  name: id,
  version: '1.0.0',
  init: () => undefined,
  ...more,
})

describe('a resumed session', () => {
  it('does not decide what this host removes, nor reads its variables, whatever a tool wrote into its tree', async () => {
    process.env['HOST_SECRET'] = 'hunter2secret'
    const seen: unknown[] = []
    const plugin = idle('p.one', { init: ({ config }) => void seen.push(config) })
    const options = { stored: false, plugins: [plugin], config: { plugins: { 'p.one': { url: 'http://fine' } } } }
    const bystander = await lab.booted('a', { stored: false })
    await bystander.stop()
    const engine = await lab.booted('a', options)
    await engine.stop()
    writeFileSync(
      join(lab.sessionDir('a', engine.sessionId), 'metadata/config-snapshot.yaml'),
      'core: {sessions: {retention: 1ms, root: /elsewhere}}\nplugins: {p.one: {url: "http://evil/?x=${HOST_SECRET}"}}\n',
    )
    const logger = keepingLogger()
    const again = await lab.booted('a', { ...options, recallSessionId: engine.sessionId, logger })
    await new Promise((resolve) => setTimeout(resolve, 50))
    await again.stop()
    expect(seen).toEqual([{ url: 'http://fine' }, { url: 'http://evil/?x=${HOST_SECRET}' }])
    expect(existsSync(lab.sessionDir('a', bystander.sessionId))).toBe(true)
    expect(logger.lines.map(({ message }) => message)).toContain(
      '${HOST_SECRET} in plugins.p.one stays as it is written: the given configuration does not name it there',
    )
  })
})

describe('session.json', () => {
  it('lists the plugins that run, also when no list names them', async () => {
    const every = await lab.booted('a', { stored: false, plugins: [scribe, idle('b')] })
    expect(every.session.meta().plugins).toEqual([scribe.id, 'b'])
    await every.stop()
    const none = await lab.booted('a', { stored: false, plugins: [scribe], config: { plugins: { active: [] } } })
    expect(none.session.meta().plugins).toEqual([])
  })
})

describe('core.boot', () => {
  it('is the first event, before anything that a plugin does to come up', async () => {
    const chatty = idle('chatty', {
      async init({ bus, session }) {
        await session.writeFile('files/a', 'x')
        await bus.emit('chatty.hello', {})
      },
    })
    const engine = await lab.engine('a', { stored: false, plugins: [chatty] })
    let heard = 0
    engine.bus.subscribe('core.boot', () => void heard++)
    await engine.boot()
    await engine.stop()
    const types: string[] = []
    const reader = await JournalReader.open(join(lab.sessionDir('a', engine.sessionId), 'journal'))
    for await (const { type } of reader) types.push(type)
    expect(types.slice(0, 3)).toEqual(['core.boot', 'session.file.created', 'chatty.hello'])
    expect(heard).toBe(1)
  })
})
