import { join } from 'node:path'
import { NexusError } from '@nexus/errors'
import type { JournalWriter } from '@nexus/journal'
import type { ObjectStore } from '@nexus/objectstore'
import type { StorageManager } from '@nexus/storage'
import {
  type Clock,
  type Failpoint,
  Fence,
  type Logger,
  noFailpoint,
  silentLogger,
  systemClock,
  systemProcesses,
} from '@nexus/host'
import { MachineRecordFile } from './boot/machine-record.ts'
import type { StaleLocalPolicy } from './boot/tree-verdict.ts'
import { CommittedGeneration } from './layout/committed-generation.ts'
import { defaultTimings, type DurabilityTimings } from './durability-timings.ts'
import { EventOutbox } from './events/outbox.ts'
import type { Layout, OnMixedPolicy } from './layout/layout.ts'
import { mirrorLayout } from './mirror-layout.ts'
import { DEFAULT_KEEP, type KeepOptions } from './versioned/keep.ts'
import { versionedLayout } from './versioned/versioned-layout.ts'
import type { FailurePolicy } from './events/table.ts'

/** What a run does when another host has committed over it. */
export type OnLostPolicy = 'stop' | 'overwrite'

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
  /** How the session lies in the store. Default: `mirror`. */
  layoutName?: 'mirror' | 'versioned'
  /**
   * When a run takes a versioned session from the host before it. Default: at `boot`. `if-free`: at boot too, which fails while
   * the owner looks live; only then a run beats.
   */
  claims?: 'boot' | 'first-commit' | 'if-free'
  /** `always`: what a file holds is read for each commit, whatever its times say. Default: `auto`. */
  verifyContent?: 'auto' | 'always'
  /** Begin anew in a store that says that it has no such session, although this machine committed it there. */
  acceptEmpty?: boolean | undefined
  /** Which earlier generations of a versioned session are kept, {@link DEFAULT_KEEP} where it is left out. */
  keep?: KeepOptions
  /** A versioned session may be removed so long after its last commit. 0, the default: never. */
  ttlMs?: number
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
  /** The run's right to write. Default: one of its own. */
  fence?: Fence
  timings?: Partial<DurabilityTimings>
}

/** One run of one session, as every part of its durability sees it. */
export interface RunContext extends Required<Omit<SessionDurabilityOptions, 'agentId' | 'acceptEmpty'>> {
  readonly agentId: string | undefined
  readonly acceptEmpty?: boolean | undefined
  readonly timings: DurabilityTimings
  /** Without links once the run is attached: the workspace and its databases go by that path. */
  sessionDir: string
  /** The open journal. Absent once it is closed: snapshots then take its files as they are. */
  journal: JournalWriter | undefined
  storage: StorageManager | undefined
  /** The end has begun: no blob is taken any more, and nothing but the last snapshot is stored. */
  isEnding: boolean
  /** Events that wait to be told. */
  readonly outbox: EventOutbox
  /** What this machine remembers of the session. */
  readonly record: MachineRecordFile
  /** How the session's commits lie in the store. */
  readonly layout: Layout
  /** What the store holds of the session. */
  readonly committed: CommittedGeneration
}

/** What would commit over another host's commit; no layout can keep a promise under it in which none can. */
function refuseOverwriting({ sessionId, layoutName, onLost, staleLocal }: SessionDurabilityOptions): void {
  if (layoutName !== 'versioned' || (onLost === 'stop' && staleLocal !== 'keep')) return
  const key = onLost === 'overwrite' ? 'on_lost can not be overwrite' : 'stale_local can not be keep'
  throw new NexusError(
    'INVALID_ARGUMENT',
    `core.object_store.${key} for session ${sessionId}, whose layout is versioned: no commit is ever overwritten there`,
    { op: 'durability.open', key: sessionId },
  )
}

/** @throws NexusError `INVALID_ARGUMENT` for a policy that the layout can't follow; `UNSUPPORTED` for a backend that lacks what it needs */
export function openRun(options: SessionDurabilityOptions): RunContext {
  refuseOverwriting(options)
  const { sessionId, sessionsRoot } = options
  const settled = {
    ...options,
    agentId: options.agentId,
    bootId: options.bootId ?? systemProcesses.self().bootId,
    clock: options.clock ?? systemClock,
    random: options.random ?? Math.random,
    logger: options.logger ?? silentLogger,
    failpoint: options.failpoint ?? noFailpoint,
    fence: options.fence ?? new Fence(),
    timings: { ...defaultTimings, ...options.timings },
    layoutName: options.layoutName ?? 'mirror',
    claims: options.claims ?? 'boot',
    verifyContent: options.verifyContent ?? 'auto',
    keep: options.keep ?? DEFAULT_KEEP,
    ttlMs: options.ttlMs ?? 0,
  }
  const scratchDir = join(sessionsRoot, '.machine')
  const mirror = mirrorLayout(settled, scratchDir)
  const layout = settled.layoutName === 'mirror' ? mirror : versionedLayout({ ...settled, mirror }, scratchDir)
  return {
    ...settled,
    sessionDir: join(sessionsRoot, sessionId),
    journal: undefined,
    storage: undefined,
    isEnding: false,
    outbox: new EventOutbox({ ...settled, waitMs: settled.timings.announceMs }),
    record: new MachineRecordFile(sessionsRoot, sessionId, settled),
    layout,
    committed: new CommittedGeneration(layout),
  }
}
