import { isNexusError, NexusError } from '@nexus/errors'
import type { JournalWriter } from '@nexus/journal'
import type { Storage, StorageScope } from '@nexus/storage'
import type { EventEmitting } from '../bus/event.ts'
import type { EventSubscribing } from '../bus/event-bus.ts'
import { type Clock, Deadline, type Logger } from '@nexus/host'
import type { LoadedConfig } from '../config/load.ts'
import type { SessionWorkspace } from '../session/workspace.ts'
import { activePlugins, bootOrder } from './boot-order.ts'
import { createPluginBus, type Replaying } from './plugin-bus.ts'
import { pluginConfigs } from './plugin-config.ts'
import { viewJournal, viewSession, viewStorage } from './plugin-views.ts'
import type { EngineInfo, Plugin, PluginContext } from './plugin.ts'

/** How long one plugin may take to come up, or to get ready, in milliseconds. */
const PLUGIN_STEP_TIMEOUT_MS: number = 60_000

/** The directories of one plugin. Each call makes the directory where it is missing. */
export interface PluginDirectories {
  data(pluginId: string): string
  appData(pluginId: string): string
  agentData(pluginId: string): string
}

/** What the host needs from the engine. */
export interface PluginHostDeps {
  /** Every plugin the program passes; `plugins.active` picks from them. */
  readonly plugins: readonly Plugin[]
  readonly loaded: Pick<LoadedConfig, 'config' | 'path' | 'problemAt'>
  readonly bus: EventEmitting & EventSubscribing
  readonly logger: Logger
  readonly clock: Clock
  readonly instanceId: string
  readonly engineInfo: EngineInfo
  readonly session: SessionWorkspace
  readonly journal: JournalWriter
  readonly storage: (scope: StorageScope, pluginId: string) => Storage
  readonly directories: PluginDirectories
  /** Handlers of side effects are left out. Default false. */
  readonly replaying?: Replaying
  /** Default {@link PLUGIN_STEP_TIMEOUT_MS}. */
  readonly stepTimeoutMs?: number
}

interface RunningPlugin {
  readonly plugin: Plugin
  readonly context: PluginContext
  readonly unsubscribeAll: () => void
}

/**
 * Brings the active plugins up and down.
 *
 * @see docs/guides/plugins.md
 */
export class PluginHost {
  readonly #deps: PluginHostDeps
  readonly #order: readonly Plugin[]
  readonly #session: PluginContext['session']
  readonly #journal: PluginContext['journal']
  readonly #up: RunningPlugin[] = []

  /** @throws NexusError `INVALID_ARGUMENT` for a missing plugin or dependency, a cycle, a bad or doubled id */
  constructor(deps: PluginHostDeps) {
    this.#deps = deps
    this.#session = viewSession(deps.session)
    this.#journal = viewJournal(deps.journal)
    this.#order = bootOrder(activePlugins(deps.plugins, deps.loaded.config.plugins.active))
  }

  /** Ids of the active plugins, in boot order. */
  get pluginIds(): string[] {
    return this.#order.map(({ id }) => id)
  }

  /**
   * Checks every configuration block, then brings the plugins up, one after the other. When one fails, those that are up
   * are shut down in reverse.
   *
   * @throws ConfigError for bad blocks, before any plugin was touched; NexusError naming the plugin that failed
   */
  async init(): Promise<void> {
    const configs = await pluginConfigs(this.#order, this.#deps.loaded)
    this.#warnAboutIdleBlocks()
    for (const plugin of this.#order) {
      const { bus, unsubscribeAll } = createPluginBus(this.#deps.bus, plugin.id, this.#deps.replaying)
      const context = this.#contextOf(plugin.id, configs.get(plugin.id), bus)
      const running: RunningPlugin = { plugin, context, unsubscribeAll }
      try {
        await this.#step('init', plugin, this.#stepTimeoutMs, () => plugin.init(context))
        subscribe(running)
      } catch (error) {
        unsubscribeAll()
        await this.shutdown({ timeoutMs: this.#stepTimeoutMs })
        throw error
      }
      this.#up.push(running)
    }
  }

  /** Tells every plugin that all are up, in boot order. One that fails shuts all of them down, in reverse. */
  async ready(): Promise<void> {
    for (const { plugin, context } of this.#up) {
      try {
        await this.#step('ready', plugin, this.#stepTimeoutMs, () => plugin.ready?.(context))
      } catch (error) {
        await this.shutdown({ timeoutMs: this.#stepTimeoutMs })
        throw error
      }
    }
  }

  /**
   * Shuts the plugins down in reverse order; each has lost its subscriptions before. Never rejects: a plugin that fails
   * or hangs is logged. Each may take its even share of the time that is left, so that one that hangs leaves some for
   * the others. Idempotent.
   */
  async shutdown(options: { timeoutMs: number }): Promise<void> {
    const endsAtMs = this.#deps.clock.now() + options.timeoutMs
    for (let running = this.#up.pop(); running !== undefined; running = this.#up.pop()) {
      const { plugin, context, unsubscribeAll } = running
      unsubscribeAll()
      const shareMs = Math.max(0, endsAtMs - this.#deps.clock.now()) / (this.#up.length + 1)
      try {
        await this.#step('shutdown', plugin, Math.floor(shareMs), () => plugin.shutdown?.(context))
      } catch (error) {
        this.#deps.logger.error({ plugin: plugin.id, err: error }, 'a plugin did not shut down properly')
      }
    }
  }

  get #stepTimeoutMs(): number {
    return this.#deps.stepTimeoutMs ?? PLUGIN_STEP_TIMEOUT_MS
  }

  async #step(verb: string, { id }: Plugin, timeoutMs: number, run: () => void | Promise<void>): Promise<void> {
    const deadline = new Deadline(`${verb} of plugin "${id}"`, timeoutMs, this.#deps.clock)
    try {
      await deadline.race((async () => run())())
    } catch (error) {
      if (error === deadline.signal.reason) throw error
      const detail = error instanceof Error ? error.message : String(error)
      throw new NexusError(
        isNexusError(error) ? error.code : 'INTERNAL',
        `${verb} of plugin "${id}" failed: ${detail}`,
        { op: `plugins.${verb}`, key: id, cause: error },
      )
    } finally {
      deadline.clear()
    }
  }

  #contextOf(pluginId: string, config: unknown, bus: PluginContext['bus']): PluginContext {
    const { logger, instanceId, engineInfo, storage, directories } = this.#deps
    return {
      config,
      bus,
      logger: withPlugin(logger, pluginId),
      pluginId,
      instanceId,
      get dataDir() {
        return directories.data(pluginId)
      },
      get appDataDir() {
        return directories.appData(pluginId)
      },
      get agentDataDir() {
        return directories.agentData(pluginId)
      },
      storage: (scope) => viewStorage(storage(scope, pluginId)),
      session: this.#session,
      journal: this.#journal,
      engineInfo,
    }
  }

  /** A block whose plugin isn't active may be meant so, or be a misspelled id, which nothing else would report. */
  #warnAboutIdleBlocks(): void {
    const ids = new Set(this.pluginIds)
    const idle = Object.keys(this.#deps.loaded.config.plugins.blocks).filter((id) => !ids.has(id))
    if (idle.length > 0)
      this.#deps.logger.warn({ plugins: idle }, 'the configuration has blocks of plugins that are not active')
  }
}

function subscribe({ plugin, context: { bus } }: RunningPlugin): void {
  for (const { type, handler, ...options } of plugin.subscriptions ?? []) {
    if (type === '*') bus.subscribeAll(handler, options)
    else bus.subscribe(type, handler, options)
  }
}

function withPlugin(logger: Logger, plugin: string): Logger {
  return {
    trace: (fields, message) => logger.trace?.({ plugin, ...fields }, message),
    debug: (fields, message) => logger.debug({ plugin, ...fields }, message),
    info: (fields, message) => logger.info({ plugin, ...fields }, message),
    warn: (fields, message) => logger.warn({ plugin, ...fields }, message),
    error: (fields, message) => logger.error({ plugin, ...fields }, message),
  }
}
