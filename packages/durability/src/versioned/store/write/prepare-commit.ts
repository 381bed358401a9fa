import { randomBytes } from 'node:crypto'
import type { Clock, Failpoint, Logger, Slices } from '@nexus/host'
import type { CapturedTree } from '../../../layout/layout.ts'
import { type CommittedLink, type MixedFrom, pathRecord } from '../../../tree/committed.ts'
import type { CommitId, CommitKind, Containers } from '../../core/commit-facts.ts'
import type { UploadedPack } from '../../core/session-record.ts'
import type { CommitHeader, CommitLink, CommitOwner, TreeTotals } from '../../format/header.ts'
import { assembleCommit, type AssembledCommit, type CommitFields } from './assemble-commit.ts'
import { CapturedTreeReader, type FoundTree } from './captured-tree.ts'
import { snapshotStart, type VerifyContent } from './change-detection.ts'
import type { FileRecord } from '../file-record.ts'
import { emptyState } from '../read/load-tree.ts'
import { PayloadSpool, type SpoolOptions } from './payload-spool.ts'
import { containersOf } from '../containers.ts'
import { moveOut } from './repack-move.ts'
import { rereadContent } from './reread.ts'
import { type SessionObjects, waiting } from '../session-objects.ts'
import { TreeDraft } from './tree-draft.ts'
import type { TreeState } from '../tree-state.ts'

/** What the commits of one run are made with. */
export interface CommitContext {
  objects: SessionObjects
  clock: Clock
  logger: Logger
  failpoint: Failpoint
  owner: CommitOwner
  /** Counts the lives of a session; information. */
  epoch: number
  verifyContent: VerifyContent
  /** How long the session is kept after its last commit; undefined or 0: until somebody removes it. */
  ttlMs?: number | undefined
  /** Called for each pack once it is stored. What is noted of it is used again by a later attempt. */
  onPack: (pack: UploadedPack) => void | Promise<void>
}

/** What the next commit follows. */
export interface CommitBase {
  /** The tree of the commit before; undefined where it is the first, or the one before holds none that counts. */
  parent: TreeState | undefined
  /** Undefined for generation 1. */
  link: CommitLink | undefined
  generation: number
  /** The lowest number of an object that was never given, where the parent holds none that counts. */
  nextN?: number
  /** Packs that earlier attempts uploaded. */
  kept: readonly UploadedPack[]
  /** When the last committed snapshot of this process began, as {@link PreparedCommit.startNs} said. */
  lastStartNs: bigint | undefined
}

/** A commit that is ready to be created: the same bytes, however often it is sent. */
export interface PreparedCommit extends CommitId {
  bytes: Buffer
  header: CommitHeader
  /** The objects that hold what it refers to. */
  containers: Containers
  /** When the snapshot began, by the clock of the file system. */
  startNs: bigint | undefined
  /** Payload that it stored anew, in packs and in itself. */
  payloadBytes: number
  /** Files whose content was read, and how much of it. */
  filesRead: number
  bytesRead: number
  /**
   * The commit landed: gives the tree that the next one is made from. Uses up the tree of the parent, which must not be used
   * any more.
   */
  accept: () => TreeState
}

/** What a turn may wait for the rereading of old content; the end of a session takes the time it needs. */
const REREAD_MS = 3

/** Reads a captured tree and makes the commit that follows. All payload that doesn't ride in it is stored and flushed. */
export async function prepareSnapshot(
  context: CommitContext,
  base: CommitBase,
  captured: CapturedTree,
  signal?: AbortSignal,
): Promise<PreparedCommit> {
  const { parent, generation } = base
  const { objects, logger, failpoint, verifyContent } = context
  const { slices, cursor, concurrency } = captured
  const startNs = snapshotStart(captured.stagingDir)
  return await withDraft(context, base, signal, async (open) => {
    const { draft } = open
    const { sessionId } = objects.place
    const { lastStartNs } = base
    if (parent !== undefined && verifyContent === 'auto') {
      const maxMs = captured.trigger === 'shutdown' ? Infinity : REREAD_MS
      parent.rereadFrom = await rereadContent(parent, { cursor, slices, maxMs, logger, sessionId })
    }
    const reading = { sessionId, captured, parent, draft, lastStartNs, verifyContent, logger, failpoint, signal }
    const found = await new CapturedTreeReader(reading).read()
    await failpoint('snapshot:read')
    const emptied =
      parent === undefined
        ? new Set<number>()
        : await moveOut({ parent, draft, generation, objects, cursor, slices, concurrency, logger, signal })
    const { trigger: kind, nonce, turnId, mixedFrom } = captured
    const about = { kind, nonce, turnId, mixedFrom, lastSeq: found.lastSeq, unstored: found.unstored }
    const links = pathRecord<CommittedLink>()
    for (const [path, target] of found.links) links[path] = { target }
    const tree = { ...found, links }
    const made = await assemble(context, base, open, { about, tree, emptied, slices })
    if (made.hasPacks) await objects.place.store.flush(waiting(signal))
    await failpoint('snapshot:objects-flushed')
    return { ...toCommit(made, base, open, tree), startNs, filesRead: found.filesRead, bytesRead: found.bytesRead }
  })
}

/** A commit that holds the tree of its parent, or none: a claim, or the end of a session. */
export async function prepareBare(
  context: CommitContext,
  base: CommitBase,
  kind: CommitKind,
  slices: Slices,
  signal?: AbortSignal,
): Promise<PreparedCommit> {
  const { parent } = base
  return await withDraft(context, base, signal, async (open) => {
    const nonce = randomBytes(8).toString('hex')
    const { mixedFrom, journalLastSeq: lastSeq = 0, unstored = [] } = parent ?? {}
    const about = { kind, nonce, turnId: undefined, mixedFrom, lastSeq, unstored }
    const tree = {
      paths: parent?.paths ?? [],
      dirs: parent?.dirs ?? pathRecord(),
      links: parent?.links ?? pathRecord(),
    }
    const made = await assemble(context, base, open, { about, tree, emptied: new Set(), slices })
    return { ...toCommit(made, base, open, tree), startNs: base.lastStartNs, filesRead: 0, bytesRead: 0 }
  })
}

/** A tree that is made and not read from a disk. */
export interface BuiltTree {
  about: AboutCommit
  tree: NewTree
  /** Puts the files into the draft. */
  fill: (draft: TreeDraft) => Promise<void>
}

/** A commit of a tree that is made and not read from a disk. All payload that doesn't ride in it is stored and flushed. */
export async function prepareBuilt(
  context: CommitContext,
  base: CommitBase,
  { about, tree, fill }: BuiltTree,
  slices: Slices,
  signal?: AbortSignal,
): Promise<PreparedCommit> {
  return await withDraft(context, base, signal, async (open) => {
    await fill(open.draft)
    const made = await assemble(context, base, open, { about, tree, emptied: new Set(), slices })
    if (made.hasPacks) await context.objects.place.store.flush(waiting(signal))
    return { ...toCommit(made, base, open, tree), startNs: undefined, filesRead: 0, bytesRead: 0 }
  })
}

interface OpenDraft {
  draft: TreeDraft
  spool: PayloadSpool
  spoolOptions: SpoolOptions
  ownN: number
  nextN: () => number
}

/** What a header says of its commit, besides its tree. */
export interface AboutCommit {
  kind: CommitKind
  nonce: string
  forkedFrom?: CommitHeader['forked_from']
  turnId: string | undefined
  mixedFrom: MixedFrom | undefined
  lastSeq: number
  unstored: readonly string[]
}

/** Paths of files, sorted, and what else lies in a tree. */
export type NewTree = Pick<FoundTree, 'dirs' | 'paths'> & { links: Record<string, CommittedLink> }

async function withDraft<T>(
  { objects, onPack }: CommitContext,
  { parent, generation, nextN, kept }: CommitBase,
  signal: AbortSignal | undefined,
  run: (open: OpenDraft) => Promise<T>,
): Promise<T> {
  let next = parent?.nextN ?? nextN ?? 1
  const takeNumber = (): number => next++
  const ownN = takeNumber()
  const spoolOptions: SpoolOptions = {
    place: objects.place,
    nameOf: (each) => objects.nameOf(each),
    generation,
    takeNumber,
    onPack,
    signal,
  }
  const spool = new PayloadSpool(spoolOptions)
  const draft = new TreeDraft(parent, spool, { kept, generation, takeNumber })
  try {
    return await run({ draft, spool, spoolOptions, ownN, nextN: () => next })
  } finally {
    await spool.abandon()
  }
}

async function assemble(
  context: CommitContext,
  { parent, link, generation }: CommitBase,
  open: OpenDraft,
  { about, tree, emptied, slices }: { about: AboutCommit; tree: NewTree; emptied: ReadonlySet<number>; slices: Slices },
): Promise<AssembledCommit> {
  const { owner, epoch, clock, objects, ttlMs } = context
  const { kind, nonce, turnId, forkedFrom, mixedFrom, lastSeq, unstored } = about
  const nowMs = clock.now()
  const fields: CommitFields = {
    session_id: objects.place.sessionId,
    generation,
    nonce,
    kind,
    completed_at: new Date(nowMs).toISOString(),
    journal: { last_seq: lastSeq },
    epoch,
    owner,
    unstored: [...unstored],
    ...(turnId === undefined ? {} : { turn_id: turnId }),
    ...(link === undefined ? {} : { parent: link }),
    ...(forkedFrom === undefined ? {} : { forked_from: forkedFrom }),
    ...(mixedFrom === undefined ? {} : { mixed_from: mixedFrom }),
    ...(ttlMs === undefined || ttlMs === 0 ? {} : { expires_at: new Date(nowMs + ttlMs).toISOString() }),
  }
  const { draft } = open
  return await assembleCommit({
    ...open,
    fields,
    parent,
    content: {
      file: (path) => draft.file(path),
      link: (path) => tree.links[path],
      dir: (path) => tree.dirs[path],
    },
    otherKeys: otherKeys(parent, tree),
    totals: totalsOf(parent, draft, tree),
    emptied,
    slices,
  })
}

/** Keys of directories and links that differ from those of the commit before. */
function otherKeys(parent: TreeState | undefined, { dirs, links }: NewTree): Map<string, boolean> {
  const keys = new Map<string, boolean>()
  if (parent?.dirs === dirs && parent.links === links) return keys
  for (const path of Object.keys(parent?.dirs ?? {})) if (dirs[path] === undefined) keys.set(path, false)
  for (const path of Object.keys(parent?.links ?? {})) if (links[path] === undefined) keys.set(path, false)
  for (const [path, { mode }] of Object.entries(dirs)) if (parent?.dirs[path]?.mode !== mode) keys.set(path, true)
  for (const [path, { target }] of Object.entries(links)) {
    if (parent?.links[path]?.target !== target) keys.set(path, true)
  }
  return keys
}

function totalsOf(parent: TreeState | undefined, draft: TreeDraft, { paths, dirs, links }: NewTree): TreeTotals {
  let bytes = parent?.totals.bytes ?? 0
  for (const [path, record] of draft.changes) bytes += (record?.size ?? 0) - (parent?.files[path]?.size ?? 0)
  return { files: paths.length, dirs: Object.keys(dirs).length, links: Object.keys(links).length, bytes }
}

function toCommit(
  made: AssembledCommit,
  { parent }: CommitBase,
  { draft }: OpenDraft,
  { paths, dirs, links }: NewTree,
): Omit<PreparedCommit, 'startNs' | 'filesRead' | 'bytesRead'> {
  const { header, headerSha256, bytes, payloadBytes, pages, innerPages, packPages, packs } = made
  const accept = (): TreeState => {
    const content = { files: parent?.files ?? pathRecord(), records: parent?.records ?? new Map<string, FileRecord>() }
    draft.accept(content)
    const { table } = draft
    const { totals } = header
    return {
      ...emptyState(header, headerSha256),
      table,
      packs,
      pages,
      innerPages,
      packPages,
      ...content,
      dirs,
      links,
      paths,
      totals,
      rereadFrom: parent?.rereadFrom,
    }
  }
  const containers = containersOf(packs.values(), header.generation)
  return { generation: header.generation, digest: headerSha256, bytes, header, containers, payloadBytes, accept }
}
