import { NexusError } from '@nexus/errors'
import { type Clock, type Failpoint, type Logger, Slices } from '@nexus/host'
import type { ObjectStore } from '@nexus/objectstore'
import type { CapturedTree, CommitFence, Layout, LayoutCommit, RestoreOptions } from '../layout/layout.ts'
import type { Restored, StagedTree } from '../layout/staged-tree.ts'
import type { Committed, CommitHead } from '../tree/committed.ts'
import { readNewest } from './core/newest-reader.ts'
import type { UploadedPack } from './core/session-record.ts'
import { sessionRoot } from './core/versioned-keys.ts'
import type { Retention } from './keep.ts'
import { beginSessionRecord } from './record-file.ts'
import { damaged, moved, unresolved } from './refusals.ts'
import { SessionChain } from './session-chain.ts'
import { SessionCommits } from './session-commits.ts'
import { SessionReclaim } from './session-reclaim.ts'
import { GoneObjectError } from './store/range-reader.ts'
import { fetchFile } from './store/read/fetch-file.ts'
import { loadTree, readerOf } from './store/read/load-tree.ts'
import { emptyTree, restoreTree } from './store/read/restore-tree.ts'
import { SessionObjects } from './store/session-objects.ts'
import { committedOf } from './store/tree-state.ts'
import type { VerifyContent } from './store/write/change-detection.ts'
import { prepareSnapshot } from './store/write/prepare-commit.ts'
import { pushFile } from './store/write/push-file.ts'

/** What the versioned layout of one session works with. */
export interface VersionedContext extends Retention {
  store: ObjectStore
  sessionId: string
  sessionsRoot: string
  instanceId: string
  host: string
  pid: number
  bootId: string
  clock: Clock
  logger: Logger
  failpoint: Failpoint
  verifyContent: VerifyContent
  /** The session as it may lie there in the other layout. */
  mirror: Layout
  /** A store that lost the session is begun anew. */
  acceptEmpty?: boolean | undefined
}

const CONCURRENCY = 16

/**
 * The layout in which a commit is one object, created only if its number is free, and nothing that a commit names is ever
 * overwritten: a host that stood still can't commit over another.
 *
 * @param scratchDir where short-lived files go; made when it is missing
 * @throws NexusError `UNSUPPORTED` naming what the backend lacks
 * @see docs/formats/versioned.md
 */
export function versionedLayout(context: VersionedContext, scratchDir: string): Layout {
  const { store } = context
  const missing = (['get', 'putIfAbsent'] as const).filter((each) => !store.capabilities[each])
  if (missing.length > 0) {
    throw new NexusError(
      'UNSUPPORTED',
      `core.object_store.layout versioned needs a backend with ${missing.join(' and ')}, and this one has none; use layout mirror`,
      { op: 'durability.versioned', key: context.sessionId },
    )
  }
  return new VersionedLayout(context, scratchDir)
}

class VersionedLayout implements Layout {
  readonly chain: SessionChain
  readonly #context: VersionedContext
  readonly #objects: SessionObjects
  readonly #reclaim: SessionReclaim

  constructor(context: VersionedContext, scratchDir: string) {
    const { store, sessionId } = context
    this.#context = context
    this.#objects = new SessionObjects({ store, sessionId, root: sessionRoot(sessionId), scratchDir })
    this.#reclaim = new SessionReclaim(this.#objects, context)
    const commits = new SessionCommits(this.#objects)
    this.chain = new SessionChain(context, { objects: this.#objects, commits, reclaim: this.#reclaim })
  }

  async head(signal?: AbortSignal): Promise<CommitHead | undefined> {
    return await this.chain.head(signal)
  }

  async committed(signal?: AbortSignal): Promise<Committed | undefined> {
    const state = await this.chain.parentState(signal)
    return state === undefined ? undefined : committedOf(state)
  }

  async restore(tree: StagedTree, options: RestoreOptions): Promise<Restored | undefined> {
    const { signal, slices, concurrency, scratchDir } = options
    const { sessionId, logger, bootId, failpoint } = this.#context
    const restored = await readNewest(this.chain.asking(signal), async (head) => {
      if (head.kind === 'migrate') throw moved(sessionId, head)
      try {
        const commit = await this.#objects.readWhole(head.generation, signal)
        if (commit === undefined) throw new GoneObjectError(this.#objects.nameOf(head.generation))
        const loaded = await loadTree(this.#objects, commit, { slices, concurrency, signal })
        const content = {
          head,
          loaded,
          files: await restoreTree(tree, loaded, sessionId, { slices, concurrency, signal, logger }),
        }
        return { is: 'content', content }
      } catch (error) {
        if (!(error instanceof GoneObjectError)) throw error
        await emptyTree(tree, scratchDir)
        return { is: 'gone', error: damaged(error) }
      }
    })
    if (restored === undefined) return undefined
    const { head, loaded, files } = restored
    tree.makeSessionDirs()
    const base = { generation: head.generation, digest: head.digest }
    await beginSessionRecord(tree.dir, { bootId, base, failpoint })
    this.chain.restored(loaded.state)
    return files
  }

  async commit(captured: CapturedTree, fence: CommitFence): Promise<LayoutCommit> {
    const { signal } = fence
    const { sessionId, failpoint } = this.#context
    let stored = { payloadBytes: 0, filesRead: 0, bytes: 0 }
    const outcome = await this.chain.commit(signal, async ({ context, base }) => {
      const { turnId } = captured
      // Half of a surrogate pair is no text.
      const tree = { ...captured, turnId: turnId === undefined ? undefined : Buffer.from(turnId).toString() }
      const prepared = await prepareSnapshot(context, base, tree, signal)
      stored = { payloadBytes: prepared.payloadBytes, filesRead: prepared.filesRead, bytes: prepared.bytes.length }
      await failpoint('snapshot:before-commit')
      return prepared
    })
    if (outcome.is === 'lost') return fence.lost(outcome.winner, outcome.reason)
    if (outcome.is === 'unknown') throw unresolved(sessionId, outcome.cause)
    await failpoint('snapshot:committed')
    const { state } = outcome
    const { totals } = state
    return {
      committed: committedOf(state),
      objects: totals.files,
      bytes: totals.bytes,
      objectsUploaded: Math.min(stored.filesRead, totals.files),
      bytesUploaded: stored.payloadBytes,
      manifestBytes: Math.max(0, stored.bytes - stored.payloadBytes),
    }
  }

  async pushBlob(_path: string, localPath: string, signal: AbortSignal): Promise<void> {
    const onPack = (pack: UploadedPack): Promise<void> => this.chain.notePack(pack)
    this.chain.asking(signal)
    const slices = new Slices({ signal })
    await pushFile(this.#objects, localPath, { generation: this.chain.next, slices, onPack, signal })
  }

  async fetchBlob(path: string, localPath: string, signal: AbortSignal): Promise<boolean> {
    const state = await this.chain.newestState(signal)
    if (state === undefined) return false
    const reader = readerOf(this.#objects, state)
    return await fetchFile({ state, reader }, path, localPath, { concurrency: CONCURRENCY, signal })
  }
}
