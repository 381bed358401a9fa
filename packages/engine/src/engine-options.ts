import { randomUUID } from 'node:crypto'
import type { Backend } from '@nexus/objectstore'
import { noFailpoint, systemClock, type Clock, type Failpoint, type Logger } from '@nexus/host'
import type { Plugin } from './plugins/plugin.ts'
import type { Replaying } from './plugins/plugin-bus.ts'

/** What an embedder may bring besides the configuration. */
export interface EngineOptions {
  /** Every plugin this program knows; `plugins.active` of the configuration picks from them, or takes all where it is absent. */
  plugins?: readonly Plugin[]
  /** A backend to use as it is, without the registry. `core.object_store` then only sets policy. */
  backend?: Backend
  /** Default: pino on standard error, at `core.log_level`. */
  logger?: Logger
  clock?: Clock
  /** Numbers in [0, 1); for jitter and names, never for secrets. */
  random?: () => number
  /** Recorded in the session's metadata. */
  profile?: string
  /** Recorded in the session's metadata. */
  labels?: Readonly<Record<string, string>>
  /** What this process serves, e.g. `cli` or `http`; recorded in the lock. Default `embedded`. */
  transport?: string
  /** Parents of nested emits survive an `await` also without `event.emit`, at a price for every async call. */
  asyncContext?: boolean
  /** Whether a resumed session brings what its stored configuration says of its plugins and journal. Default true. */
  useConfigSnapshot?: boolean
  /** The session to resume. One that exists nowhere becomes a new, empty session of that id. */
  recallSessionId?: string
  /**
   * A session of `recallSessionId` that was removed from the store begins anew under its id. Default false: its boot rejects
   * with `NOT_FOUND`, which says when it was removed.
   */
  beginAgain?: boolean
  /** How long a boot waits for a live holder of the session's lock, in milliseconds. Default 0: it is refused at once. */
  waitForLock?: number
  failpoint?: Failpoint
}

/** How a session is ended. */
export interface StopOptions {
  /** Store nothing when nothing but the session's own end has changed since the last commit. Default false. */
  onlyIfNew?: boolean
}

type Defaulted = Omit<EngineOptions, 'backend' | 'profile' | 'asyncContext' | 'recallSessionId'>

/** {@link EngineOptions} with every default filled in. */
export interface ResolvedOptions extends Readonly<Required<Defaulted>> {
  readonly backend: Backend | undefined
  readonly profile: string | undefined
  /** Unique to this run; in manifests, owner markers and plugin contexts. */
  readonly instanceId: string
  /** The run is a replay: plugins' handlers of side effects are left out. */
  readonly replaying: Replaying
}

export function resolveOptions(given: EngineOptions, logger: Logger, replaying: Replaying): ResolvedOptions {
  return {
    plugins: given.plugins ?? [],
    backend: given.backend,
    logger,
    clock: given.clock ?? systemClock,
    random: given.random ?? Math.random,
    profile: given.profile,
    labels: given.labels ?? {},
    transport: given.transport ?? 'embedded',
    instanceId: randomUUID(),
    replaying,
    useConfigSnapshot: given.useConfigSnapshot ?? true,
    beginAgain: given.beginAgain ?? false,
    waitForLock: given.waitForLock ?? 0,
    failpoint: given.failpoint ?? noFailpoint,
  }
}
