import type { JournalWriter } from '@nexus/journal'
import type { ObjectStore } from '@nexus/objectstore'
import type { StorageManager } from '@nexus/storage'
import {
  type Clock,
  type Failpoint,
  type Logger,
  noFailpoint,
  silentLogger,
  systemClock,
  systemProcesses,
} from '@nexus/host'
import type { OnLostPolicy } from './commit/commit-guard.ts'
import type { DurabilityTimings } from './durability-timings.ts'
import type { Tell } from './events.ts'
import type { FailurePolicy } from './outage/outage.ts'
import type { OnMixedPolicy } from './mirror/restore/judge.ts'
import type { StaleLocalPolicy } from './boot/tree-verdict.ts'

/** What a session's durability is opened with. */
export interface SessionDurabilityOptions {
  /** Owned from here on: closed by `finish` and `abandon`. */
  store: ObjectStore
  /** As configured; in events and logs. */
  backendName: string
  /** Names the store, bucket and prefix, so that what a machine remembers of one isn't applied to another. */
  storeId: string
  sessionId: string
  sessionsRoot: string
  storageRoot: string
  agentId?: string | undefined
  policy: FailurePolicy
  staleLocal: StaleLocalPolicy
  onLost: OnLostPolicy
  onMixed: OnMixedPolicy
  /** Begin anew in a store that says that it has no such session, although this machine committed it there. */
  acceptEmpty?: boolean | undefined
  /** Unique to this run. */
  instanceId: string
  host: string
  pid: number
  /** The boot of this machine. Default: as the kernel tells. */
  bootId?: string
  clock?: Clock
  /** In [0, 1); for jitter only. */
  random?: () => number
  logger?: Logger
  failpoint?: Failpoint
  timings?: Partial<DurabilityTimings>
}

/** {@link SessionDurabilityOptions} with what production takes by default. */
export type SettledOptions = SessionDurabilityOptions & {
  bootId: string
  clock: Clock
  random: () => number
  logger: Logger
  failpoint: Failpoint
}

export function settledOptions(options: SessionDurabilityOptions): SettledOptions {
  return {
    ...options,
    bootId: options.bootId ?? systemProcesses.self().bootId,
    clock: options.clock ?? systemClock,
    random: options.random ?? Math.random,
    logger: options.logger ?? silentLogger,
    failpoint: options.failpoint ?? noFailpoint,
  }
}

/** The running parts of a session. */
export interface AttachedSession {
  tell: Tell
  /** Not used any more by the final snapshot: by then it is closed. */
  journal?: JournalWriter
  /** Used to the end: its snapshots work after `closeAll`. */
  storage?: StorageManager
}

/** How a run ends. */
export interface FinishOptions {
  /** The run ended well: take the final snapshot. False for a boot that failed. */
  clean: boolean
  /** Bounds all of it. Default 30 s. */
  timeoutMs?: number
}
