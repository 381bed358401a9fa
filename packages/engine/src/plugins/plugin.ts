import type { StorageScope } from '@nexus/storage'
import type { EventHandler, NexusEvent } from '../bus/event.ts'
import type { Logger } from '@nexus/host'
import type { PluginBus } from './plugin-bus.ts'
import type { PluginJournal, PluginSession, PluginStorage } from './plugin-views.ts'
import type { StandardSchema } from './standard-schema.ts'

/** The engine a plugin runs in. */
export interface EngineInfo {
  /** Version of `@nexus/engine`. */
  readonly version: string
  readonly sessionId: string
  /** Empty when none is configured. */
  readonly agentId: string
  /** Empty when none was given. */
  readonly profile: string
}

/** What a plugin gets. */
export interface PluginContext<Config = unknown> {
  /** Its own block of the configuration, as its schema gave it; without a schema as it was written, `{}` when absent. */
  readonly config: Config
  /** The session's bus; `source` of what the plugin emits is its id, and its subscriptions end with it. */
  readonly bus: PluginBus
  readonly logger: Logger
  readonly pluginId: string
  /** Id of this run of the engine. */
  readonly instanceId: string
  /** The plugin's directory in the session; made when first asked for. */
  readonly dataDir: string
  /** The plugin's directory on this machine, across sessions; made when first asked for. */
  readonly appDataDir: string
  /** The plugin's directory for this agent, across sessions; made when first asked for. */
  readonly agentDataDir: string
  /** The plugin's database of a scope. */
  storage(scope: StorageScope): PluginStorage
  readonly session: PluginSession
  readonly journal: PluginJournal
  readonly engineInfo: EngineInfo
}

/** A subscription that the engine makes once the plugin is up and ends before it is shut down. */
export interface PluginSubscription {
  /** An event type, or `*` for all. */
  readonly type: string
  readonly handler: EventHandler
  /** As `subscribe` takes it; not for `*`. */
  readonly priority?: number
  readonly filter?: (event: NexusEvent) => boolean
}

/**
 * A part of an agent that lives in the engine.
 *
 * `init` of a plugin runs when everything it depends on is up; `ready` once every plugin is; `shutdown` in reverse order.
 * Each is bounded in time. A failing `init` or `ready` fails the boot, and what was up is shut down again.
 *
 * @see docs/guides/plugins.md
 */
export interface Plugin<Config = unknown> {
  /** One or more segments joined by `/`, e.g. `nexus.tool.shell`; names directories and `plugins.<id>`. */
  readonly id: string
  readonly name: string
  readonly version: string
  /** Ids of plugins that must be up before this one. */
  readonly dependencies?: readonly string[]
  /** Checks and completes the plugin's block at boot, before any plugin is up. */
  readonly configSchema?: StandardSchema<Config>
  /** Brings it up. */
  init(context: PluginContext<Config>): void | Promise<void>
  /** Called in the same order when every plugin is up, before `core.ready`. */
  ready?(context: PluginContext<Config>): void | Promise<void>
  /** Gives back what `init` took; in reverse order, also when the boot failed after its `init`. */
  shutdown?(context: PluginContext<Config>): void | Promise<void>
  readonly subscriptions?: readonly PluginSubscription[]
}
