import type { JournalWriter, OpenTurn } from '@nexus/journal'
import type { ObjectStore } from '@nexus/objectstore'
import type { StorageManager } from '@nexus/storage'
import type { LoadedConfig } from '../config/load.ts'
import type { SessionDurability } from '@nexus/durability'
import type { PluginHost } from '../plugins/plugin-host.ts'
import type { SessionLock } from '@nexus/host'
import type { SessionWorkspace } from '../session/workspace.ts'
import type { Ticks } from './ticks.ts'

/** Everything that a booted session consists of; what boot took and stop gives back. */
export interface RunningSession {
  readonly id: string
  readonly dir: string
  /** False when this run created the session. */
  readonly resumed: boolean
  /** What is in force: of a resumed session, its own configuration merged with this host's. */
  readonly loaded: LoadedConfig
  readonly lock: SessionLock
  readonly workspace: SessionWorkspace
  readonly storage: StorageManager
  readonly journal: JournalWriter
  /** How the journal ended before this run; undefined for a new session. */
  readonly openTurn: OpenTurn | undefined
  readonly plugins: PluginHost
  /** Undefined when no backend is named. */
  readonly durability: SessionDurability | undefined
  /** The store behind it. */
  readonly store: ObjectStore | undefined
  readonly ticks: Ticks
  /** Ends what runs beside the turns: subscriptions of the engine itself, sweeps. */
  readonly background: AbortController
}
