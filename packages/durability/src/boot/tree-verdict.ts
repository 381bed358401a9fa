import type { LocalJournal } from './local-journal.ts'
import { isOurCommit, type MachineRecord } from './machine-record.ts'
import type { CommitPair } from '../tree/committed.ts'

/** What to do with a local tree that another host's commit has overtaken. */
export type StaleLocalPolicy = 'set-aside' | 'refuse' | 'keep'

/** What is known when the question is asked. */
export interface TreeEvidence {
  /** What this machine remembers of the tree; undefined when it remembers nothing. */
  record: MachineRecord | undefined
  /** The boot of the machine that is running now. */
  bootId: string
  /** The store's committed generation; undefined when the store says that there is none. */
  remote: (CommitPair & { lastSeq: number }) | undefined
  /** How far the local journal goes. */
  journal: LocalJournal
  /** The conversation or a database of the commit is gone or emptied: that happened outside of a turn. */
  hasLost?: boolean
}

/**
 * Whether the local tree may be used.
 *
 * - `live`: it holds everything the store has. `why` says how that is known.
 * - `torn`: a power loss may have taken what was never fsynced, and the store has all its completed turns.
 * - `torn-but-newer`: the same, but it holds completed turns that the store never got.
 * - `lost-content`: it derives from the stored commit and holds less: its conversation or a database is gone, or its
 *   journal is gone, cut short or can't be read. `forked`: it may hold turns the store never got.
 * - `stale`: another host committed since. `forked`: it holds turns of its own besides.
 * - `given-up`: it could go on, and its caller wants the commit.
 */
export type TreeVerdict =
  | { kind: 'live'; why: 'never-stored' | 'our-commit' }
  | { kind: 'torn' }
  | { kind: 'torn-but-newer' }
  | { kind: 'lost-content'; forked: boolean }
  | { kind: 'stale'; forked: boolean }
  | { kind: 'given-up' }

/** What is logged of a local tree that is kept although the store's commit speaks against it. */
export const WHY_KEPT = {
  'torn-but-newer':
    'the machine went down without a stop, and the local tree holds turns that the store never got: keeping it as it is',
  stale: 'the local tree is older than the store and is kept: the next commit hides what another host committed',
} as const

/**
 * Decides whether a local tree is at least as new as the store. Only then it wins.
 *
 * @see docs/concepts/durability.md
 */
export function judgeTree({ record, bootId, remote, journal, hasLost = false }: TreeEvidence): TreeVerdict {
  if (remote === undefined) return { kind: 'live', why: 'never-stored' }
  if (!isOurCommit(record, remote))
    return { kind: 'stale', forked: isAhead(record, remote) || hasForked(record, journal) }
  const isNewer = Math.min(journal.turnEnd ?? 0, record?.tornAtSeq ?? Infinity) > remote.lastSeq
  if (hasLost) return { kind: 'lost-content', forked: isNewer }
  if (record !== undefined && (record.clean || record.bootId === bootId)) {
    if (isComplete(journal, remote.lastSeq)) return { kind: 'live', why: 'our-commit' }
    return { kind: 'lost-content', forked: journal.lastSeq === undefined }
  }
  return { kind: isNewer ? 'torn-but-newer' : 'torn' }
}

/** Whether a tree that no power loss can have torn still has the events that were committed from it. */
function isComplete({ lastSeq, rewound }: LocalJournal, committedSeq: number): boolean {
  return lastSeq !== undefined && (lastSeq >= committedSeq || (rewound && lastSeq > 0))
}

/** Generations only grow: a lower one was put by a host that had stood still, over commits of ours that were acknowledged. */
function isAhead(record: MachineRecord | undefined, remote: CommitPair): boolean {
  return (record?.committed?.generation ?? 0) >= remote.generation
}

/** A journal that can't be read, or a tree of unknown descent with turns in it, counts as forked: somebody should look. */
function hasForked(record: MachineRecord | undefined, { turnEnd }: LocalJournal): boolean {
  return turnEnd === undefined || turnEnd > (record?.lastSeq ?? 0)
}
