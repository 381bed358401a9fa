import { EventBus } from '../src/bus/event-bus.ts'
import { parseConfig } from '../src/config/load.ts'
import type { Plugin } from '../src/plugins/plugin.ts'
import { PluginHost, type PluginHostDeps } from '../src/plugins/plugin-host.ts'
import { keepingLogger, ManualClock } from '@nexus/host/testing'
import type { BusFixture } from './bus-fixture.ts'

/** A host with stand-ins for the parts of the engine that it only hands on. */
export async function newHost(
  plugins: readonly Plugin[],
  yaml = '',
  deps: Partial<PluginHostDeps> = {},
): Promise<{ host: PluginHost } & Omit<BusFixture, 'recorder'>> {
  const clock = new ManualClock()
  const logger = keepingLogger()
  const bus = new EventBus({ sessionId: 's1', clock, logger })
  const loaded = await parseConfig(yaml, { path: 'test.yaml' })
  const host = new PluginHost({
    plugins,
    loaded,
    bus,
    logger,
    clock,
    instanceId: 'i1',
    engineInfo: { version: '1.2.3', sessionId: 's1', agentId: '', profile: 'test' },
    session: { id: 's1' } as never,
    journal: { lastSeq: 0 } as never,
    storage: (scope, pluginId) => ({ path: `${scope} of ${pluginId}` }) as never,
    directories: { data: (id) => `/data/${id}`, appData: (id) => `/app/${id}`, agentData: (id) => `/agent/${id}` },
    ...deps,
  })
  return { host, bus, clock, logger }
}

/** A plugin that notes its steps in `log`. */
export function notingPlugin(id: string, log: string[], more: Partial<Plugin> = {}): Plugin {
  return {
    id,
    name: id,
    version: '1',
    init: () => void log.push(`init ${id}`),
    ready: () => void log.push(`ready ${id}`),
    shutdown: () => void log.push(`shutdown ${id}`),
    ...more,
  }
}
