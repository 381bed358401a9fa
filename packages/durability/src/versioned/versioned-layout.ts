import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { NexusError } from '@nexus/errors'
import { type Clock, type Failpoint, type Logger, Slices } from '@nexus/host'
import { keyFault, type ObjectStore } from '@nexus/objectstore'
import type { CapturedTree, CommitChain, CommitFence, Layout, LayoutCommit, RestoreOptions } from '../layout/layout.ts'
import type { Restored, StagedTree } from '../layout/staged-tree.ts'
import { type Committed, type CommitHead, headOf } from '../tree/committed.ts'
import { isSame, type CommitFacts, type CommitId } from './core/commit-facts.ts'
import { CommitLine, type LineOutcome } from './core/commit-line.ts'
import { findHead } from './core/head-search.ts'
import { readNewest } from './core/newest-reader.ts'
import { mayName } from './core/reclaim.ts'
import { recordOf, type UploadedPack } from './core/session-record.ts'
import { judgeTree, type Judgement } from './core/tree-judgement.ts'
import { packFile, sessionRoot } from './core/versioned-keys.ts'
import { damaged, forgotten, moved, refuseMirror, removed, unresolved } from './refusals.ts'
import { beginSessionRecord, readSessionRecord, SessionRecordFile } from './record-file.ts'
import { MAX_NAME_BYTES } from './format/bytes/limits.ts'
import type { Retention } from './keep.ts'
import { SessionReclaim } from './session-reclaim.ts'
import { SessionCommits } from './session-commits.ts'
import type { VerifyContent } from './store/write/change-detection.ts'
import { fetchFile } from './store/read/fetch-file.ts'
import { loadTree, readerOf } from './store/read/load-tree.ts'
import {
  type CommitBase,
  type CommitContext,
  prepareBare,
  prepareSnapshot,
  type PreparedCommit,
} from './store/write/prepare-commit.ts'
import { pushFile } from './store/write/push-file.ts'
import { GoneObjectError } from './store/range-reader.ts'
import { emptyTree, restoreTree } from './store/read/restore-tree.ts'
import { SessionObjects } from './store/session-objects.ts'
import { committedOf, type TreeState } from './store/tree-state.ts'

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
/** `hint` is put so often. */
const HINT_EVERY = 100
/** How long an end waits for reclaim. */
const RECLAIM_END_MS = 2_000

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

class VersionedLayout implements Layout, CommitChain {
  readonly #context: VersionedContext
  readonly #scratchDir: string
  readonly #objects: SessionObjects
  readonly #commits: SessionCommits
  /** What the store said of the local tree when it was last asked. */
  #judgement: Judgement | undefined
  /** The commit that the next one follows. */
  #state: TreeState | undefined
  readonly #reclaim: SessionReclaim
  #line: CommitLine<PreparedCommit> | undefined
  #record: SessionRecordFile | undefined
  #opening: Promise<SessionRecordFile> | undefined
  /** The attempt that was sent last, until its tree is the state. */
  #sent: PreparedCommit | undefined
  #lastStartNs: bigint | undefined

  constructor(context: VersionedContext, scratchDir: string) {
    const { store, sessionId } = context
    this.#context = context
    this.#scratchDir = scratchDir
    this.#objects = new SessionObjects({ store, sessionId, root: sessionRoot(sessionId), scratchDir })
    this.#commits = new SessionCommits(this.#objects)
    this.#reclaim = new SessionReclaim(this.#objects, context)
  }

  get chain(): CommitChain {
    return this
  }

  get holdsTree(): boolean {
    return this.#judgement?.is === 'held' || this.#judgement?.is === 'claimed'
  }

  get holdsHead(): boolean {
    return this.#judgement?.is === 'held'
  }

  get treeBootId(): string | undefined {
    return readSessionRecord(this.#treeDir)?.bootId
  }

  get #treeDir(): string {
    return join(this.#context.sessionsRoot, this.#context.sessionId)
  }

  async head(signal?: AbortSignal): Promise<CommitHead | undefined> {
    // Who serves knows its head: another's commit would have taken the number of its next one.
    if (this.#line !== undefined && this.#state !== undefined) return headOf(committedOf(this.#state))
    const head = await findHead(this.#asking(signal), readSessionRecord(this.#treeDir)?.base?.generation)
    return head.is === 'commit' ? headFrom(head.commit) : undefined
  }

  async committed(signal?: AbortSignal): Promise<Committed | undefined> {
    const judgement = await this.#judge(signal)
    if (judgement.is === 'new') return undefined
    this.#state = await this.#stateAt(judgement.head, signal)
    return committedOf(this.#state)
  }

  async restore(tree: StagedTree, options: RestoreOptions): Promise<Restored | undefined> {
    const { signal, slices, concurrency, scratchDir } = options
    const { sessionId, mirror, logger, bootId, failpoint } = this.#context
    const restored = await readNewest(this.#asking(signal), async (head) => {
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
    if (restored === undefined) {
      await refuseMirror(sessionId, mirror, signal)
      this.#judgement = { is: 'new' }
      return undefined
    }
    const { head, loaded, files } = restored
    tree.makeSessionDirs()
    await beginSessionRecord(tree.dir, { bootId, base: idOf(head), failpoint })
    this.#state = loaded.state
    this.#judgement = { is: 'held', head }
    await this.#leaveLine()
    return files
  }

  async commit(captured: CapturedTree, fence: CommitFence): Promise<LayoutCommit> {
    const { signal } = fence
    let stored = { payloadBytes: 0, filesRead: 0, bytes: 0 }
    const outcome = await this.#commitNext(signal, async (base) => {
      // Half of a surrogate pair is no text.
      const tree = { ...captured, turnId: captured.turnId && Buffer.from(captured.turnId).toString() }
      const prepared = await prepareSnapshot(await this.#making(), base, tree, signal)
      stored = { payloadBytes: prepared.payloadBytes, filesRead: prepared.filesRead, bytes: prepared.bytes.length }
      await this.#context.failpoint('snapshot:before-commit')
      return prepared
    })
    if (outcome.is === 'lost') return fence.lost(outcome.winner === undefined ? undefined : headFrom(outcome.winner))
    if (outcome.is === 'unknown') throw unresolved(this.#context.sessionId, outcome.cause)
    await this.#context.failpoint('snapshot:committed')
    const state = this.#stateNow()
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

  async claim(signal?: AbortSignal): Promise<Committed | 'lost'> {
    const slices = new Slices({ signal })
    const outcome = await this.#commitNext(
      signal,
      async (base) => await prepareBare(await this.#making(), base, 'claim', slices, signal),
    )
    if (outcome.is === 'unknown') throw unresolved(this.#context.sessionId, outcome.cause)
    if (outcome.is === 'committed') return committedOf(this.#stateNow())
    await this.#leaveLine()
    return 'lost'
  }

  async pushBlob(_path: string, localPath: string, signal: AbortSignal): Promise<void> {
    const parent = this.#line?.state.parent
    const { onPack } = await this.#making()
    const slices = new Slices({ signal })
    await pushFile(this.#objects, localPath, { generation: (parent?.generation ?? 0) + 1, slices, onPack, signal })
  }

  async fetchBlob(path: string, localPath: string, signal: AbortSignal): Promise<boolean> {
    const state = this.#state
    if (state === undefined) return false
    mkdirSync(this.#scratchDir, { recursive: true, mode: 0o700 })
    const reader = readerOf(this.#objects, state)
    return await fetchFile({ state, reader }, path, localPath, { concurrency: CONCURRENCY, signal })
  }

  async close(): Promise<void> {
    await this.#reclaim.end(RECLAIM_END_MS)
    await this.#leaveLine()
  }

  /** Sends what is unresolved, then what `prepare` makes; its tree is the state afterwards. */
  async #commitNext(
    signal: AbortSignal | undefined,
    prepare: (base: CommitBase) => Promise<PreparedCommit>,
  ): Promise<LineOutcome<PreparedCommit>> {
    const line = await this.#openLine(signal)
    // Whatever else is known of this tree: a commit of it would hide what it lacks.
    if (this.#judgement?.is === 'stale') return { is: 'lost', winner: this.#judgement.head }
    const outcome = await line.commit(async (parent, generation) => {
      const base = await this.#baseAt(parent, generation, signal)
      const prepared = await prepare(base)
      this.#commits.check(prepared)
      this.#sent = prepared
      return prepared
    })
    if (outcome.is !== 'committed') return outcome
    this.#accept(outcome.attempt)
    const { containers, generation } = outcome.attempt
    const isUseful = ({ name }: UploadedPack): boolean =>
      mayName(name, generation + 1) && !containers.packs.has(packFile(name))
    const packs = this.#record?.current.packs.filter(isUseful) ?? []
    await this.#record?.add({ committed: idOf(outcome.attempt), packs }, { durable: false })
    if (generation % HINT_EVERY === 0)
      await this.#commits.leaveHint(generation).catch((error: unknown) => {
        this.#context.logger.debug({ err: error }, 'the hint was not stored; a later one will be')
      })
    this.#reclaim.committed(outcome.attempt)
    return outcome
  }

  async #openLine(signal: AbortSignal | undefined): Promise<CommitLine<PreparedCommit>> {
    this.#asking(signal)
    if (this.#line !== undefined) return this.#line
    const judgement = this.#judgement ?? (await this.#judge(signal))
    const record = await this.#openRecord()
    // Whoever claimed over this tree may have taken away what no commit names.
    if (judgement.is === 'claimed') await record.replace({ ...record.current, packs: [] })
    const parent = 'head' in judgement ? judgement.head : undefined
    this.#line = new CommitLine<PreparedCommit>(this.#commits, (attempt) => record.add({ attempt: idOf(attempt) }), {
      parent,
      earlier: record.current.attempts,
    })
    return this.#line
  }

  /** Opened once: opening puts a new file in its place, and lines that go to the one before are lost. */
  async #openRecord(): Promise<SessionRecordFile> {
    if (this.#record !== undefined) return this.#record
    this.#opening ??= SessionRecordFile.open(this.#treeDir, this.#context)
      .then((record) => (this.#record = record))
      .finally(() => (this.#opening = undefined))
    return await this.#opening
  }

  /** The tree may be replaced: what was known of it goes. */
  async #leaveLine(): Promise<void> {
    this.#line = undefined
    this.#sent = undefined
    const record = this.#record
    this.#record = undefined
    await record?.close()
  }

  async #judge(signal: AbortSignal | undefined): Promise<Exclude<Judgement, { is: 'forgotten' }>> {
    const { acceptEmpty = false, sessionId, mirror } = this.#context
    const commits = this.#asking(signal)
    const record = readSessionRecord(this.#treeDir)
    let judgement = await judgeTree(commits, record)
    if (judgement.is === 'forgotten') {
      if (!acceptEmpty) throw forgotten(sessionId, judgement.generation)
      const file = await this.#openRecord()
      await file.replace(recordOf(this.#context.bootId, undefined))
      judgement = await judgeTree(commits, readSessionRecord(this.#treeDir))
      if (judgement.is === 'forgotten') throw forgotten(sessionId, judgement.generation)
    }
    if (judgement.is === 'new') await refuseMirror(sessionId, mirror, signal)
    if (judgement.is === 'removed') throw removed(sessionId, judgement.head)
    if (judgement.is === 'moved') throw moved(sessionId, judgement.head)
    this.#judgement = judgement
    return judgement
  }

  /** What a commit is made on. */
  async #baseAt(
    parent: CommitId | undefined,
    generation: number,
    signal: AbortSignal | undefined,
  ): Promise<CommitBase> {
    const kept = this.#record?.current.packs ?? []
    if (parent === undefined) return { parent: undefined, link: undefined, generation, kept, lastStartNs: undefined }
    if (isSame(this.#sent, parent) && this.#sent !== undefined) this.#accept(this.#sent)
    if (!isSame(this.#stateId, parent)) this.#state = await this.#stateAt(parent, signal)
    const { commit } = this.#stateNow()
    const link = { generation: commit.generation, nonce: commit.nonce, header_sha256: commit.header_sha256 }
    return { parent: this.#state, link, generation, kept, lastStartNs: this.#lastStartNs }
  }

  get #stateId(): CommitId | undefined {
    const commit = this.#state?.commit
    return commit === undefined ? undefined : { generation: commit.generation, digest: commit.header_sha256 }
  }

  #stateNow(): TreeState {
    if (this.#state === undefined)
      throw new NexusError('INTERNAL', 'no commit is known', { op: 'durability.versioned' })
    return this.#state
  }

  /** Once for each attempt: it uses up the tree of its parent. */
  #accept(attempt: PreparedCommit): void {
    this.#sent = undefined
    this.#lastStartNs = attempt.startNs
    this.#state = attempt.accept()
  }

  async #stateAt({ generation }: CommitId, signal: AbortSignal | undefined): Promise<TreeState> {
    try {
      const commit = await this.#objects.readWhole(generation, signal)
      if (commit === undefined) throw new GoneObjectError(this.#objects.nameOf(generation))
      const options = { slices: new Slices({ signal }), concurrency: CONCURRENCY, signal }
      return (await loadTree(this.#objects, commit, options)).state
    } catch (error) {
      throw error instanceof GoneObjectError ? damaged(error) : error
    }
  }

  async #making(): Promise<CommitContext> {
    const { clock, logger, failpoint, verifyContent, instanceId, host, pid, bootId, ttlMs } = this.#context
    const record = await this.#openRecord()
    return {
      objects: this.#objects,
      clock,
      logger,
      failpoint,
      // For people alone: a host whose name can't be written is left out.
      owner: { instance_id: instanceId, machine_id: bootId, pid, ...(isName(host) ? { host } : {}) },
      epoch: 0,
      verifyContent,
      ttlMs,
      onPack: (pack) => record.add({ pack }),
    }
  }

  /** The commits, asked on behalf of a caller. */
  #asking(signal: AbortSignal | undefined): SessionCommits {
    mkdirSync(this.#scratchDir, { recursive: true, mode: 0o700 })
    this.#commits.signal = signal
    return this.#commits
  }
}

function isName(host: string): boolean {
  return host.length <= MAX_NAME_BYTES && keyFault(host) === undefined
}

function idOf({ generation, digest }: CommitId): CommitId {
  return { generation, digest }
}

function headFrom({ generation, nonce, instanceId }: CommitFacts): CommitHead {
  return { generation, nonce, instanceId }
}
