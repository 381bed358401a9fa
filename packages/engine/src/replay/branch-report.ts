import type { ConfigInput } from '../config/engine-config.ts'
import type { Plugin } from '../plugins/plugin.ts'
import type { ReplayDifference, ReplayedEvent, ReplayOptions } from './replay-report.ts'

/** How a session is branched. */
export interface BranchOptions extends ReplayOptions {
  /** The first turn that is taken under the other configuration, from 1. The turns before it are taken as they were. */
  fromTurn: number
  /** What the branch runs under, as {@link Engine.fromConfig} takes it, or the path of a file. Default: the given one. */
  config?: ConfigInput | string
  /** The plugins of the branch. Default: those of the turns before. */
  branchPlugins?: readonly Plugin[]
  /** A directory that is made for the scratch session, and kept. Default: a temporary one that is removed. */
  keepIn?: string
}

/** What a session counted. */
export interface SessionTotals {
  turns: number
  tokens: number
  costUsd: number
}

/** A file as one of the two sides has it. */
export interface FileState {
  sizeBytes: number
  sha256: string
}

/** A file below `files/` that is not the same. */
export interface ChangedFile {
  /** Relative to the session, with `/`. */
  path: string
  /** What the session has; absent when only the branch has the file. */
  before?: FileState
  /** What the branch has; absent when only the session has the file. */
  after?: FileState
}

/** An input from the branch on, and what came of it on both sides. */
export interface BranchedTurn {
  /** Which of the session's inputs that were answered or refused, counted on from `fromTurn`. */
  turn: number
  /** What the user said. */
  input: string
  same: boolean
  /** Events that only the session has, in order. */
  removed: ReplayedEvent[]
  /** Events that only the branch has, in order. */
  added: ReplayedEvent[]
}

/** What became of a session that went another way. */
export interface BranchReport {
  fromTurn: number
  /** Where a turn before the branch already went another way; absent when none did. */
  firstDifference?: ReplayDifference
  /** Every input from the branch on. */
  turns: BranchedTurn[]
  /** Files that differ at the end, by path. */
  files: ChangedFile[]
  totals: { before: SessionTotals; after: SessionTotals }
  /**
   * Tools that were called before the branch and not run again, since they may reach outside the session: what they did to
   * its files is not in the branch.
   */
  notRebuilt: string[]
  /** Where the scratch session was kept. */
  dir?: string
}
