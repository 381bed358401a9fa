import type { Slices, TreeCursor } from '@nexus/host'
import type { Restored, StagedTree } from './staged-tree.ts'
import type { DatabaseCapture } from '../capture/databases.ts'
import type { SnapshotMemory } from '../capture/memory.ts'
import type { StagedParts } from '../capture/stage.ts'
import type { Committed, CommitHead, CommitPair, MixedFrom } from '../tree/committed.ts'
import type { CommitChain } from './commit-chain.ts'

/** What asked for a snapshot. */
export type SnapshotTrigger = 'turn' | 'request' | 'shutdown' | 'retry'

/** One session as it is captured, to be stored as the next commit. */
export interface CapturedTree extends CommitPair {
  instanceId: string
  /** Counts the snapshots of this run from 1. */
  sequence: number
  /** A new session's first commit is the claim to it. */
  trigger: SnapshotTrigger | 'claim'
  turnId?: string | undefined
  /** The tree, reached through the directories it was opened by. */
  cursor: TreeCursor
  /** Absolute path of the tree, for messages. */
  sessionDir: string
  /** An existing directory for short-lived files, beside the tree. */
  stagingDir: string
  /** What can't be read in place: the active segment and the databases, being copied. Its failure is that of the commit. */
  parts: Promise<StagedParts>
  databases: DatabaseCapture | undefined
  /** The commit that this one follows, as just read. Undefined for a first one. */
  committed: Committed | undefined
  mixedFrom?: MixedFrom | undefined
  memory: SnapshotMemory
  slices: Slices
  /** Uploads in flight. */
  concurrency: number
}

/** What a commit must ask on its way. */
export interface CommitFence {
  signal?: AbortSignal | undefined
  /** Called when everything else is durable: notes the pair on this machine's disk. The commit follows only after it. */
  beforeCommit: (pair: CommitPair) => Promise<void>
  /**
   * Asked before each put that replaces something of the committed generation: rejects when another host has committed
   * since. May go by a look that is younger than `ageMs`.
   */
  confirm: (ageMs: number) => Promise<void>
  /** Another host's commit has the number of this one, or, as `reason` says, something else: never returns. */
  lost: (winner: CommitHead | undefined, reason?: Error) => never
}

/** A commit that landed, and what it cost. */
export interface LayoutCommit {
  committed: Committed
  objects: number
  bytes: number
  objectsUploaded: number
  bytesUploaded: number
  /** Bytes of what describes the commit. */
  manifestBytes: number
}

/** How a restore goes. */
export interface RestoreOptions {
  /** An existing directory beside the tree, on its file system, that is removed afterwards. */
  scratchDir: string
  onMixed: OnMixedPolicy
  slices: Slices
  /** Downloads in flight. */
  concurrency: number
  signal?: AbortSignal | undefined
}

/**
 * What a mixture of two generations does: `fail` the boot, `warn` and go on, or `auto`: fail where a database or the
 * conversation is mixed, warn for other files.
 */
export type OnMixedPolicy = 'auto' | 'warn' | 'fail'

/**
 * How the commits of one session lie in a store. Everything else of this package goes by commits alone and knows no layout.
 *
 * @see docs/formats/object-store.md
 */
export interface Layout {
  /**
   * Who committed last; a few bytes, whatever the commit's size.
   *
   * @returns undefined only when the store says that nothing is committed; every failure rejects
   */
  head(signal?: AbortSignal): Promise<CommitHead | undefined>
  /** The newest commit whole; otherwise as {@link head}. `CORRUPT` and `UNSUPPORTED` when it can't be understood. */
  committed(signal?: AbortSignal): Promise<Committed | undefined>
  /** Stores a captured tree as the next commit. Rejects with the commit before still in force. */
  commit(captured: CapturedTree, fence: CommitFence): Promise<LayoutCommit>
  /** Fills a staged tree with the files of the newest commit; undefined when no commit was ever completed. */
  restore(tree: StagedTree, options: RestoreOptions): Promise<Restored | undefined>
  /** Uploads one immutable file of the tree ahead of the commit that will name it. */
  pushBlob(path: string, localPath: string, signal: AbortSignal): Promise<void>
  /** Only where commits form a chain, in which none can take the place of another. */
  readonly chain?: CommitChain | undefined
  /** Brings one committed file back; false when the store doesn't have it, or can't give single objects. */
  fetchBlob(path: string, localPath: string, signal: AbortSignal): Promise<boolean>
}
