import { existsSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { NexusError } from '@nexus/errors'
import { Slices } from '@nexus/host'
import { keyFault } from '@nexus/objectstore'
import type { BootTrees, ChainBoot, ChainBootOptions, CommitChain, LateVerdict } from '../layout/commit-chain.ts'
import { isOutage } from '../layout/is-outage.ts'
import { type CommitHead, headOf } from '../tree/committed.ts'
import { ChainRecord } from './chain-record.ts'
import { type Boot, bootSession, judgeLate } from './core/boot.ts'
import { type CommitFacts, type CommitId, isSame } from './core/commit-facts.ts'
import { CommitLine, type LineState } from './core/commit-line.ts'
import { findHead } from './core/head-search.ts'
import { mayName } from './core/reclaim.ts'
import { recordOf, type UploadedPack } from './core/session-record.ts'
import { packFile } from './core/versioned-keys.ts'
import { MAX_NAME_BYTES } from './format/bytes/limits.ts'
import { contended, damaged, forgotten, gone, moved, refuseMirror, removed, unresolved } from './refusals.ts'
import type { SessionCommits } from './session-commits.ts'
import type { SessionReclaim } from './session-reclaim.ts'
import { GoneObjectError } from './store/range-reader.ts'
import { loadTree } from './store/read/load-tree.ts'
import type { SessionObjects } from './store/session-objects.ts'
import { committedOf, type TreeState } from './store/tree-state.ts'
import {
  type CommitBase,
  type CommitContext,
  prepareBare,
  type PreparedCommit,
  prepareSnapshot,
} from './store/write/prepare-commit.ts'
import type { VersionedContext } from './versioned-layout.ts'

const CONCURRENCY = 16
/** `hint` is put so often. */
const HINT_EVERY = 100
/** How long an end waits for reclaim. */
const RECLAIM_END_MS = 2_000

/** What an attempt is made with. */
export interface Making {
  context: CommitContext
  base: CommitBase
}

/** How a commit ended. `reason`: what is there in its place, where that isn't just another host's commit. */
export type ChainOutcome =
  | { is: 'committed'; state: TreeState }
  | { is: 'lost'; winner: CommitHead | undefined; reason?: Error | undefined }
  | { is: 'unknown'; cause: Error | undefined }

/** The commits of one run to its session: its boot, its tree's record, and where it stands. */
export class SessionChain implements CommitChain {
  readonly #context: VersionedContext
  readonly #objects: SessionObjects
  readonly #commits: SessionCommits
  readonly #record: ChainRecord
  readonly #treeDir: string
  readonly #reclaim: SessionReclaim
  /** The commit that the next one follows. */
  #state: TreeState | undefined
  #line: CommitLine<PreparedCommit> | undefined
  /** The attempt that was sent last, until its tree is the state. */
  #sent: PreparedCommit | undefined
  #lastStartNs: bigint | undefined
  #newest = 0
  #hinted = 0

  constructor(
    context: VersionedContext,
    { objects, commits, reclaim }: { objects: SessionObjects; commits: SessionCommits; reclaim: SessionReclaim },
  ) {
    this.#context = context
    this.#objects = objects
    this.#commits = commits
    this.#reclaim = reclaim
    this.#treeDir = join(context.sessionsRoot, context.sessionId)
    this.#record = new ChainRecord(this.#treeDir, context.failpoint)
  }

  get treeBootId(): string | undefined {
    return this.#record.current?.bootId
  }

  /** The newest commit, as far as it is known, whole; read where nothing is known of it yet. Undefined where there is none. */
  async newestState(signal: AbortSignal): Promise<TreeState | undefined> {
    if (this.#state !== undefined || this.#line !== undefined) return this.#state
    const head = await findHead(this.asking(signal), this.#record.current?.base?.generation)
    return head.is === 'commit' ? await this.stateAt(head.commit, signal) : undefined
  }

  /** The generation that the next commit will have, as far as it is known. */
  get next(): number {
    return (this.#line?.state.parent?.generation ?? 0) + 1
  }

  async boot(trees: BootTrees, { lazy, fresh, beginAgain, signal }: ChainBootOptions): Promise<ChainBoot> {
    const { acceptEmpty = false, sessionId, mirror } = this.#context
    const boot = await bootSession<PreparedCommit>(
      {
        store: this.asking(signal),
        record: () => (trees.isThere ? (this.#record.current ?? recordOf('', undefined)) : undefined),
        note: (attempt) => this.#record.note(attempt),
        begins: async () => {
          trees.begins()
          await refuseMirror(sessionId, mirror, signal)
        },
        accepts: async (head) => {
          this.#state = await this.stateAt(head, signal)
          return await trees.accepts(committedOf(this.#state))
        },
        restore: async ({ generation }) => {
          await this.#leave()
          await trees.restore(generation)
          return idOfState(this.#stateNow())
        },
        renew: async () => {
          await this.#leave()
          await trees.renew()
        },
        dropPacks: () => this.#record.dropPacks(),
        forget: () => this.#record.forget(),
        prepareClaim: (parent, generation) => this.#claim(trees, parent, generation, signal),
        mayWait: isOutage,
      },
      { claim: lazy ? 'first-commit' : 'boot', isFresh: fresh, create: beginAgain, acceptEmpty },
    )
    return await this.#booted(boot, signal)
  }

  async judgeLate(signal?: AbortSignal): Promise<LateVerdict> {
    if (this.#line !== undefined) return { is: 'serving' }
    const { acceptEmpty = false, sessionId, mirror } = this.#context
    const commits = this.asking(signal)
    let judged = await judgeLate<PreparedCommit>(commits, this.#record.current)
    if (judged.is === 'forgotten' && acceptEmpty) {
      await this.#record.forget()
      judged = await judgeLate<PreparedCommit>(commits, this.#record.current)
    }
    if (judged.is === 'forgotten') throw forgotten(sessionId, judged.generation)
    if (judged.is === 'lost') {
      const { winner } = judged
      return { is: 'lost', winner: headFrom(winner), reason: gone(sessionId, winner) }
    }
    if (judged.line.parent === undefined) await refuseMirror(sessionId, mirror, signal)
    if (judged.dropsPacks) await this.#record.dropPacks()
    this.#begin(judged.line)
    return judged
  }

  async adopt(): Promise<void> {
    await this.#record.adopt(this.#context.bootId)
  }

  /** Who committed last. Who serves knows its head: another's commit would have taken the number of its next one. */
  async head(signal?: AbortSignal): Promise<CommitHead | undefined> {
    if (this.#line !== undefined && this.#state !== undefined) return headOf(committedOf(this.#state))
    const head = await findHead(this.asking(signal), this.#record.current?.base?.generation)
    return head.is === 'commit' && head.commit.kind !== 'removed' ? headFrom(head.commit) : undefined
  }

  /**
   * The commit that the next one follows, whole; undefined before the first.
   *
   * @throws as {@link judgeLate} does; `FENCED` when another host has the session
   */
  async parentState(signal?: AbortSignal): Promise<TreeState | undefined> {
    const verdict = await this.judgeLate(signal)
    const { sessionId } = this.#context
    if (verdict.is === 'lost') {
      const message = `another host has session ${sessionId}`
      throw new NexusError('FENCED', message, { op: 'durability.versioned', key: sessionId })
    }
    const parent = this.#line?.state.parent
    if (parent === undefined || isRemoved(parent)) return undefined
    this.#settle(parent)
    if (!isSame(this.#stateId, parent)) this.#state = await this.stateAt(parent, signal)
    return this.#state
  }

  /** A tree was just filled with this commit, and a record that begins with it. */
  restored(state: TreeState): void {
    this.#state = state
  }

  /** Sends what is unresolved, then what `prepare` makes of the tree; its tree is the state afterwards. */
  async commit(
    signal: AbortSignal | undefined,
    prepare: (making: Making) => Promise<PreparedCommit>,
  ): Promise<ChainOutcome> {
    const verdict = await this.judgeLate(signal)
    if (verdict.is === 'lost') return verdict
    const line = this.#line as CommitLine<PreparedCommit>
    this.asking(signal)
    let offered: readonly UploadedPack[] = []
    const outcome = await line.commit(async (parent, generation) => {
      await this.#record.provePacks(() => this.#objects.packSizes(signal))
      const making = await this.#makingOn(parent, generation, signal)
      offered = making.base.kept
      return this.#made(await prepare(making))
    })
    if (outcome.is === 'unknown') return outcome
    if (outcome.is === 'lost') {
      const { winner, damage } = outcome
      return { is: 'lost', winner: winner === undefined ? undefined : headFrom(winner), reason: damage }
    }
    await this.#landed(outcome.attempt, offered)
    return { is: 'committed', state: this.#stateNow() }
  }

  /** Notes a pack that was uploaded ahead of the commit that will name it. */
  async notePack(pack: UploadedPack): Promise<void> {
    await this.#record.notePack(pack)
  }

  async leaveHint(signal?: AbortSignal): Promise<void> {
    if (this.#newest === this.#hinted) return
    const generation = this.#newest
    this.asking(signal)
    try {
      await this.#commits.leaveHint(generation)
      this.#hinted = generation
    } catch (error) {
      this.#context.logger.debug({ err: error }, 'the hint was not stored; a later one will be')
    }
  }

  async close(): Promise<void> {
    await this.#reclaim.end(RECLAIM_END_MS)
    await this.#leave()
  }

  /** The commits, asked on behalf of a caller. */
  asking(signal: AbortSignal | undefined): SessionCommits {
    mkdirSync(this.#objects.place.scratchDir, { recursive: true, mode: 0o700 })
    this.#commits.signal = signal
    return this.#commits
  }

  /** @throws `CORRUPT`, also where the commit is gone; the store's error */
  async stateAt({ generation }: CommitId, signal: AbortSignal | undefined): Promise<TreeState> {
    try {
      const commit = await this.#objects.readWhole(generation, signal)
      if (commit === undefined) throw new GoneObjectError(this.#objects.nameOf(generation))
      const options = { slices: new Slices({ signal }), concurrency: CONCURRENCY, signal }
      return (await loadTree(this.#objects, commit, options)).state
    } catch (error) {
      throw error instanceof GoneObjectError ? damaged(error) : error
    }
  }

  async #booted(boot: Boot<PreparedCommit>, signal: AbortSignal | undefined): Promise<ChainBoot> {
    const { sessionId } = this.#context
    if (boot.is === 'forgotten') throw forgotten(sessionId, boot.generation)
    if (boot.is === 'contended') throw contended(sessionId)
    if (boot.is !== 'serving') throw boot.is === 'removed' ? removed(sessionId, boot.head) : moved(sessionId, boot.head)
    const { line, doubt } = boot
    const { parent } = line
    if (parent === undefined || isRemoved(parent)) this.#state = undefined
    if (this.#sent !== undefined && isSame(this.#sent, parent)) {
      // Of a claim that was sent before its tree was there, the restored tree has the record and the state.
      if (isSame(this.#stateId, parent)) this.#sent = undefined
      else await this.#landed(this.#sent, [])
    }
    this.#begin(line)
    if (parent !== undefined && !isRemoved(parent) && !isSame(this.#stateId, parent))
      this.#state = await this.stateAt(parent, signal)
    const committed = this.#state === undefined ? undefined : committedOf(this.#state)
    return { committed, ...(doubt === undefined ? {} : { doubt: unresolved(sessionId, doubt) }) }
  }

  #begin(state: LineState<PreparedCommit>): void {
    this.#line = new CommitLine(this.#commits, (attempt) => this.#record.note(attempt), state)
  }

  /** A claim has its parent's tree. One that begins a session has the tree that is there. */
  async #claim(
    trees: BootTrees,
    parent: CommitId | undefined,
    generation: number,
    signal: AbortSignal | undefined,
  ): Promise<PreparedCommit> {
    const { context, base } = await this.#makingOn(parent, generation, signal)
    if (base.parent !== undefined)
      return this.#made(await prepareBare(context, base, 'claim', new Slices({ signal }), signal))
    return this.#made(await trees.capture((captured) => prepareSnapshot(context, base, captured, signal)))
  }

  #made(prepared: PreparedCommit): PreparedCommit {
    this.#commits.check(prepared)
    this.#sent = prepared
    return prepared
  }

  async #makingOn(parent: CommitId | undefined, generation: number, signal: AbortSignal | undefined): Promise<Making> {
    const { clock, logger, failpoint, verifyContent, instanceId, host, pid, bootId, ttlMs } = this.#context
    // A claim that is sent before its tree is there has no record to note anything in.
    const isThere = existsSync(this.#treeDir)
    const kept = isThere ? await this.#record.packs() : []
    const context: CommitContext = {
      objects: this.#objects,
      clock,
      logger,
      failpoint,
      // For people alone: a host whose name can't be written is left out.
      owner: { instance_id: instanceId, machine_id: bootId, pid, ...(isName(host) ? { host } : {}) },
      epoch: 0,
      verifyContent,
      ttlMs,
      onPack: async (pack) => (isThere ? await this.#record.notePack(pack) : undefined),
    }
    const about = { generation, kept }
    if (parent === undefined)
      return { context, base: { ...about, parent: undefined, link: undefined, lastStartNs: undefined } }
    if (isRemoved(parent)) {
      const link = { generation: parent.generation, nonce: parent.nonce, header_sha256: parent.digest }
      const { nextN } = await this.stateAt(parent, signal)
      return { context, base: { ...about, parent: undefined, link, nextN, lastStartNs: undefined } }
    }
    this.#settle(parent)
    if (!isSame(this.#stateId, parent)) this.#state = await this.stateAt(parent, signal)
    const state = this.#stateNow()
    const { generation: at, nonce, header_sha256: digest } = state.commit
    const link = { generation: at, nonce, header_sha256: digest }
    return { context, base: { ...about, parent: state, link, lastStartNs: this.#lastStartNs } }
  }

  /** An attempt that was sent before this one landed. */
  #settle(parent: CommitId): void {
    if (this.#sent !== undefined && isSame(this.#sent, parent)) this.#accept(this.#sent)
  }

  async #landed(attempt: PreparedCommit, offered: readonly UploadedPack[]): Promise<void> {
    this.#accept(attempt)
    const { containers, generation } = attempt
    // What a whole tree didn't need it won't need later either: its content was there before.
    const refused = new Set(offered.map(({ name }) => packFile(name)))
    const isUseful = ({ name }: UploadedPack): boolean =>
      mayName(name, generation + 1) && !containers.packs.has(packFile(name)) && !refused.has(packFile(name))
    await this.#record.committed(attempt, isUseful)
    this.#newest = generation
    if (generation % HINT_EVERY === 0) await this.leaveHint(this.#commits.signal)
    this.#reclaim.committed(attempt)
  }

  /** Once for each attempt: it uses up the tree of its parent. */
  #accept(attempt: PreparedCommit): void {
    this.#sent = undefined
    this.#lastStartNs = attempt.startNs
    this.#state = attempt.accept()
  }

  /** The tree may be replaced: what was known of it goes. */
  async #leave(): Promise<void> {
    this.#line = undefined
    await this.#record.close()
  }

  get #stateId(): CommitId | undefined {
    return this.#state === undefined ? undefined : idOfState(this.#state)
  }

  #stateNow(): TreeState {
    if (this.#state === undefined)
      throw new NexusError('INTERNAL', 'no commit is known', { op: 'durability.versioned' })
    return this.#state
  }
}

function isRemoved(commit: CommitId & Partial<CommitFacts>): commit is CommitFacts {
  return commit.kind === 'removed'
}

function isName(host: string): boolean {
  return host.length <= MAX_NAME_BYTES && keyFault(host) === undefined
}

function idOfState({ commit }: TreeState): CommitId {
  return { generation: commit.generation, digest: commit.header_sha256 }
}

function headFrom({ generation, nonce, instanceId }: CommitFacts): CommitHead {
  return { generation, nonce, instanceId }
}
