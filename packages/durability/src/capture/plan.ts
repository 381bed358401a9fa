import type { CommittedFile } from '../tree/committed.ts'
import type { Slices } from '@nexus/host'
import { type ImmutableKind, immutableKind, JOURNAL_DIR, META_PATH } from '../tree/names.ts'
import type { FileStat } from '../tree/tree-stat.ts'
import type { WalkedTree } from '../tree/tree-walk.ts'
import type { StagedFile } from './stage.ts'

/** One object to bring to the store. */
export interface PlannedObject {
  path: string
  /** What the walk saw, for a file that is stored from the tree. */
  stat?: FileStat
  staged?: StagedFile
  /** Set for a file that never changes. */
  kind?: ImmutableKind
  /** How much of the committed generation is lost when the snapshot stops after this one; see {@link planObjects}. */
  rank: number
}

/** What a plan is made from. */
export interface PlanSources {
  tree: WalkedTree
  /** Copies that stand for files of the tree. */
  staged: ReadonlyMap<string, StagedFile>
  /** Paths of databases among them. */
  isDatabase: (path: string) => boolean
  /** The sealed segments of the journal's instant; others were sealed after it and repeat what its active segment holds. */
  sealed: ReadonlySet<string> | undefined
  committedEntry: (path: string) => CommittedFile | undefined
  /** Whether a committed generation names it at all. */
  isCommitted: (path: string) => boolean
}

/** The first rank that overwrites what a committed generation names. */
export const OVERWRITING_RANK = 2

/** Ranks that are stored together: none of a later group is begun before every one of an earlier is there. */
export const RANK_GROUPS: readonly (readonly number[])[] = [[0, 1], [2, 3], [4]]

/**
 * All objects of the snapshot, the harmless ones first. A snapshot that dies leaves the committed generation whole as long
 * as nothing of it was overwritten, and nearly whole when only appended files were:
 *
 * 0. never change
 * 1. new, or most likely what the store holds already (same size and time)
 * 2. appended to: hydration can cut them back
 * 3. rewritten
 * 4. databases and `metadata/session.json`, which say what the session is: after all that may still fail
 */
export async function planObjects(sources: PlanSources, slices: Slices): Promise<PlannedObject[]> {
  const { tree, staged, sealed } = sources
  const byRank: PlannedObject[][] = Array.from(RANK_GROUPS.flat(), () => [])
  for (const [path, stat] of tree.files) {
    if (slices.due) await slices.pause()
    if (staged.has(path)) continue
    const kind = immutableKind(path)
    if (kind === 'segment' && sealed !== undefined && !sealed.has(path.slice(JOURNAL_DIR.length + 1))) continue
    const rank = kind === undefined ? rankLive(path, stat, sources) : 0
    byRank[rank]?.push({ path, stat, rank, ...(kind === undefined ? {} : { kind }) })
  }
  for (const [path, file] of staged) {
    const rank = rankStaged(path, file, sources)
    byRank[rank]?.push({ path, staged: file, rank })
  }
  return byRank.flat()
}

function rankLive(path: string, stat: FileStat, sources: PlanSources): number {
  if (!sources.isCommitted(path)) return 1
  if (path === META_PATH) return 4
  const entry = sources.committedEntry(path)
  if (entry === undefined) return 3
  if (entry.size === stat.size && entry.mtime_ns === String(stat.mtimeNs)) return 1
  return stat.size > entry.size ? 2 : 3
}

function rankStaged(path: string, file: StagedFile, sources: PlanSources): number {
  if (!sources.isCommitted(path)) return 1
  if (sources.isDatabase(path)) return 4
  const entry = sources.committedEntry(path)
  return entry !== undefined && file.sizeBytes >= entry.size ? 2 : 3
}
