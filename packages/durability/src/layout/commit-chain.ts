import type { Committed, CommitHead } from '../tree/committed.ts'
import type { CapturedTree } from './layout.ts'

/** The trees of this machine, as the boot of a chain has them: that of the session, and what is put in its place. */
export interface BootTrees {
  /** There is a tree at the session's path. */
  readonly isThere: boolean
  /** Nothing was ever committed: rejects where this machine knows better. */
  begins(): void
  /** Whether the tree, which holds this commit or all but claims of it, may be used as it is. */
  accepts(head: Committed): Promise<boolean>
  /**
   * Restores the newest commit in the place of what is there, by `Layout.restore`.
   *
   * @param generation the newest at the last look
   */
  restore(generation: number): Promise<void>
  /** Puts a new tree in the place of what is there. */
  renew(): Promise<void>
  /** Captures the tree that is there, in which nobody works. */
  capture<T>(use: (captured: CapturedTree) => Promise<T>): Promise<T>
}

/** How a session is booted. */
export interface ChainBootOptions {
  /** The first commit claims the session, and not the boot. */
  lazy: boolean
  /** The id was generated just now. */
  fresh: boolean
  /** A session that was removed begins anew. */
  beginAgain: boolean
  signal?: AbortSignal | undefined
}

/** What a boot found. */
export interface ChainBoot {
  /** What the run goes on from; undefined where nothing is committed yet. */
  committed: Committed | undefined
  /** Why the session isn't claimed yet: its next commit does that before it stores anything. */
  doubt?: Error | undefined
}

/** Whether a run that couldn't ask the store at boot may commit. `reason`: what the store says of the session. */
export type LateVerdict = { is: 'serving' } | { is: 'lost'; winner: CommitHead; reason?: Error | undefined }

/** What a layout can say and do in which a host can't commit over another. */
export interface CommitChain {
  /** The boot of the machine in which the local tree was last judged good; undefined for a tree of unknown descent. */
  readonly treeBootId: string | undefined
  /**
   * Settles the tree that the run starts from and claims the session for it.
   *
   * @throws NexusError `NOT_FOUND` for a session that was removed, `PRECONDITION` for one that the store forgot or that lies in
   *   the other layout, `UNAVAILABLE` when other hosts kept on committing, `CORRUPT` and `UNSUPPORTED` for what can't be
   *   understood; the store's error
   */
  boot(trees: BootTrees, options: ChainBootOptions): Promise<ChainBoot>
  /**
   * Judges, once, the tree of a run whose boot couldn't ask the store.
   *
   * @throws as {@link boot} does
   */
  judgeLate(signal?: AbortSignal): Promise<LateVerdict>
  /** The tree was judged good: it belongs to this boot of the machine. */
  adopt(): Promise<void>
  /** Leaves the newest generation of this run for those who search it. */
  leaveHint(signal?: AbortSignal): Promise<void>
  /** Lets go of the tree's record. */
  close(): Promise<void>
}
