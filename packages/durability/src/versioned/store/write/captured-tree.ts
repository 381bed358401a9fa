import { join } from 'node:path'
import { type Failpoint, type Logger, forEachSliced, sortSliced } from '@nexus/host'
import { readSwept } from '@nexus/journal'
import { coveredBy, DEFAULT_DIR_MODE, freePlaces, recordDirs } from '../../../capture/carried-places.ts'
import { ForeignDatabases } from '../../../capture/foreign.ts'
import { setAsideReplaced } from '../../../capture/replaced-places.ts'
import { inodeAt, type StagedFile, type StagedParts } from '../../../capture/stage.ts'
import type { CapturedTree } from '../../../layout/layout.ts'
import type { CommittedDir } from '../../../tree/committed.ts'
import { ACTIVE_SEGMENT_PATH, immutableKind, JOURNAL_DIR } from '../../../tree/names.ts'
import { TreeWalker, type Unstorable, type WalkedTree } from '../../../tree/tree-walk.ts'
import { MAX_TEXT_BYTES } from '../../format/bytes/limits.ts'
import { isTrustedFileSystem, isUnchanged, trustedBefore, type VerifyContent } from './change-detection.ts'
import { FileReader, type ReadOutcome } from './file-reader.ts'
import type { TreeDraft } from './tree-draft.ts'
import { refuseConflicts } from './tree-conflicts.ts'
import { committedOf, type TreeState } from '../tree-state.ts'

/** What was found in a tree besides the content of its files, which is in the draft. */
export interface FoundTree {
  dirs: Record<string, CommittedDir>
  links: ReadonlyMap<string, string>
  /** Paths of all files, sorted. */
  paths: readonly string[]
  unstored: readonly string[]
  lastSeq: number
  /** Files whose content was read, and how much of it. */
  filesRead: number
  bytesRead: number
}

/** What a captured tree is read with. */
export interface ReadTreeOptions {
  sessionId: string
  captured: CapturedTree
  /** The commit before. */
  parent: TreeState | undefined
  draft: TreeDraft
  /** When the last committed snapshot of this process began. */
  lastStartNs: bigint | undefined
  verifyContent: VerifyContent
  logger: Logger
  failpoint: Failpoint
  signal: AbortSignal | undefined
}

/** How often the tree is looked at because something in it was gone when its turn came. */
const MAX_ROUNDS = 3

/** Reads what differs from the commit before into a draft, and says what else there is. */
export class CapturedTreeReader {
  readonly #options: ReadTreeOptions
  readonly #reader: FileReader
  /** Files that are as the commit before has them, that were read, or that are carried on. */
  readonly #settled = new Set<string>()
  readonly #unstorable = new Map<string, Unstorable>()
  readonly #databases = new Set<string>()
  /** Undefined: every file is read. */
  readonly #beforeNs: bigint | undefined
  #filesRead = 0

  constructor(options: ReadTreeOptions) {
    const { captured, draft, verifyContent, lastStartNs } = options
    this.#options = options
    this.#reader = new FileReader(draft, captured.cursor, captured.slices)
    const trustsStats = verifyContent === 'auto' && isTrustedFileSystem(captured.cursor.root)
    this.#beforeNs = trustsStats ? trustedBefore(lastStartNs) : undefined
  }

  async read(): Promise<FoundTree> {
    const { captured, parent, failpoint } = this.#options
    const { slices } = captured
    const parts = await captured.parts
    await failpoint('snapshot:staged')
    const tree = await this.#readAll(parts)
    const { dirs, links, unstored } = await this.#carry(tree)
    this.#tell(tree)
    const isSameSet = this.#isSameSet()
    const paths = isSameSet ? (parent?.paths ?? []) : await sortSliced(this.#settled, slices)
    const recorded = await recordDirs(dirs, paths, links, slices)
    // What has no path that the commit before hasn't is as sound as that.
    const isSound = isSameSet && isSubset(links.keys(), parent?.links) && isSubset(Object.keys(recorded), parent?.dirs)
    if (!isSound) await refuseConflicts({ paths, links, dirs: recorded }, slices)
    return {
      dirs: recorded,
      links,
      paths,
      unstored: await sortSliced(unstored, slices),
      lastSeq: parts.lastSeq,
      filesRead: this.#filesRead,
      bytesRead: this.#reader.readBytes,
    }
  }

  /** Looks again when something was gone when its turn came: it may be there under another name. */
  async #readAll(parts: StagedParts): Promise<WalkedTree> {
    const { captured, parent, failpoint, signal } = this.#options
    const { cursor, slices, stagingDir, databases } = captured
    const committed = parent === undefined ? undefined : committedOf(parent)
    const walker = new TreeWalker(cursor, { maxPathBytes: MAX_TEXT_BYTES, slices })
    const foreign = new ForeignDatabases({
      cursor,
      stagingDir,
      databases,
      ...(signal === undefined ? {} : { signal }),
    })
    for (const file of parts.files.values()) await this.#readStaged(file, file.path !== ACTIVE_SEGMENT_PATH)
    let tree = await walker.walk()
    await failpoint('snapshot:walked')
    for (let round = 1; ; round++) {
      setAsideReplaced(tree, { committed, staged: parts.files, lost: parts.lostDatabases, cursor })
      const copies = await foreign.extract(tree, parts.files, this.#databases)
      for (const copy of copies.values()) if (!this.#settled.has(copy.path)) await this.#readStaged(copy, true)
      const planned = await this.#plan(tree, parts, copies)
      let isDone = true
      for (const path of planned) if (!(await this.#readLive(path))) isDone = false
      if (isDone || round === MAX_ROUNDS) {
        await this.#giveUp(planned, tree)
        // What was settled in an earlier round may have become something else since.
        if (round > 1) await this.#leaveOut(tree, parts, copies)
        return tree
      }
      tree = await walker.lookAgain()
    }
  }

  /** Files whose content has to be read. */
  async #plan(tree: WalkedTree, parts: StagedParts, copies: ReadonlyMap<string, StagedFile>): Promise<string[]> {
    const { captured, draft } = this.#options
    const planned: string[] = []
    await forEachSliced(tree.files, captured.slices, ([path, stat]) => {
      if (parts.files.has(path) || copies.has(path) || this.#settled.has(path) || this.#unstorable.has(path)) return
      if (isSealedLater(path, parts)) return
      const record = draft.file(path)
      if (record !== undefined && isUnchanged(record, stat, this.#beforeNs)) this.#settled.add(path)
      else planned.push(path)
    })
    return planned
  }

  /** Returns whether there is nothing more to find out about it. */
  async #readLive(path: string): Promise<boolean> {
    this.#options.signal?.throwIfAborted()
    const outcome: ReadOutcome = await this.#reader.readLive(path, false)
    if (outcome.kind === 'read') {
      this.#filesRead++
      this.#settled.add(path)
    } else if (outcome.kind === 'unstorable') {
      this.#unstorable.set(path, { path, why: outcome.why, tree: false })
    } else if (outcome.kind === 'database') this.#databases.add(path)
    const pause = this.#options.failpoint('snapshot:file-read')
    if (pause !== undefined) await pause
    return outcome.kind === 'read' || outcome.kind === 'unstorable'
  }

  async #readStaged(file: StagedFile, isDatabase: boolean): Promise<void> {
    await this.#reader.readStaged(file, isDatabase)
    this.#settled.add(file.path)
    this.#filesRead++
  }

  /** What could not be read is listed; what vanished for good is left out. */
  async #giveUp(planned: readonly string[], tree: WalkedTree): Promise<void> {
    const { captured } = this.#options
    for (const path of planned) {
      if (captured.slices.due) await captured.slices.pause()
      if (this.#settled.has(path) || this.#unstorable.has(path)) continue
      if (inodeAt(captured.cursor, path) === undefined) continue
      tree.unstorable.push({ path, why: 'it kept being replaced while it was read', tree: false })
    }
    for (const unstorable of this.#unstorable.values()) tree.unstorable.push(unstorable)
  }

  async #leaveOut(tree: WalkedTree, parts: StagedParts, copies: ReadonlyMap<string, StagedFile>): Promise<void> {
    const { captured } = this.#options
    await forEachSliced(this.#settled, captured.slices, (path) => {
      if (!tree.files.has(path) && !parts.files.has(path) && !copies.has(path)) this.#settled.delete(path)
    })
  }

  /** What only the commit before has: kept where it is evicted or can't be read now, else gone. */
  async #carry(
    tree: WalkedTree,
  ): Promise<{ dirs: Map<string, number>; links: Map<string, string>; unstored: Set<string> }> {
    const { captured, parent, draft } = this.#options
    const dirs = new Map(tree.dirs)
    const links = new Map(tree.links)
    const unstored = new Set(tree.unstorable.map(({ path }) => path))
    if (parent === undefined) return { dirs, links, unstored }
    if (tree.unstorable.length === 0 && this.#isSameSet()) return { dirs, links, unstored }
    const swept = new Set(readSwept(join(captured.sessionDir, JOURNAL_DIR)).map(({ name }) => `${JOURNAL_DIR}/${name}`))
    const isUnstorable = coveredBy(tree.unstorable)
    const isFree = freePlaces(tree, this.#settled)
    const missing: string[] = []
    await forEachSliced(parent.paths, captured.slices, (path) => void (this.#settled.has(path) || missing.push(path)))
    for (const path of missing) {
      const isEvicted = (isBlob(path) || swept.has(path)) && !tree.files.has(path)
      if ((isEvicted || isUnstorable(path)) && isFree(path)) this.#settled.add(path)
      else draft.removeFile(path)
    }
    if (tree.unstorable.length > 0) {
      for (const [path, { target }] of Object.entries(parent.links)) {
        if (isUnstorable(path) && isFree(path) && !links.has(path)) links.set(path, target)
      }
      for (const [path, { mode }] of Object.entries(parent.dirs)) {
        if (isUnstorable(path) && isFree(path)) dirs.set(path, mode ?? DEFAULT_DIR_MODE)
      }
    }
    return { dirs, links, unstored }
  }

  /** Whether the paths of the files are those of the commit before. */
  #isSameSet(): boolean {
    const { parent, draft } = this.#options
    if (parent === undefined || parent.paths.length !== this.#settled.size) return false
    for (const [path, record] of draft.changes) {
      if (record === undefined || parent.files[path] === undefined) return false
    }
    return true
  }

  #tell({ unstorable, specials }: WalkedTree): void {
    const { sessionId, captured, logger } = this.#options
    for (const { path, why } of unstorable) {
      if (captured.memory.isNews(`${path}: ${why}`))
        logger.warn({ session_id: sessionId, path, why }, 'a file can not be stored')
    }
    for (const path of specials) {
      if (captured.memory.isNews(`special ${path}`)) {
        logger.warn({ session_id: sessionId, path }, 'a socket, FIFO or device has nothing to store and is left out')
      }
    }
  }
}

function isSubset(paths: Iterable<string>, of: Readonly<Record<string, unknown>> | undefined): boolean {
  for (const path of paths) if (of?.[path] === undefined) return false
  return true
}

/** A segment that was sealed after the journal's instant repeats what the copy of the active one holds. */
function isSealedLater(path: string, { journal }: StagedParts): boolean {
  if (journal === undefined || immutableKind(path) !== 'segment') return false
  return !journal.sealed.has(path.slice(JOURNAL_DIR.length + 1))
}

function isBlob(path: string): boolean {
  const kind = immutableKind(path)
  return kind === 'blob' || kind === 'blob-meta'
}
