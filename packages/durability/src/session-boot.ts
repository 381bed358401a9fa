import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { LOCK_FILE } from '@nexus/host'
import type { HydrateResult } from './boot/hydrate.ts'
import { holdsUnstoredTurns, type MachineRecord, readMachineRecord } from './boot/machine-record.ts'
import {
  beforeDecision,
  dropTree,
  giveBack,
  hydrate,
  onTopOf,
  refuseForgotten,
  replaceTree,
  setAside,
} from './boot/replace-tree.ts'
import {
  heldRecord,
  judgeLocalTree,
  lookAtBoot,
  type ResolveTreeOptions,
  type TreeAtBoot,
  type TreeResolver,
} from './boot/resolve-tree.ts'
import { judgeTree, WHY_KEPT } from './boot/tree-verdict.ts'
import { captureTree } from './commit/snapshot.ts'
import type { BootTrees, ChainBoot, CommitChain } from './layout/commit-chain.ts'
import { isOutage } from './layout/is-outage.ts'
import type { CapturedTree } from './layout/layout.ts'
import type { RunContext } from './run-context.ts'
import type { Committed } from './tree/committed.ts'

/** How the tree of a session is settled. */
export interface SessionTreeOptions extends ResolveTreeOptions {
  /** The id was generated just now, so the store needn't be asked. */
  fresh?: boolean
  /** A session of this id that was removed begins anew; otherwise that ends the boot. */
  beginAgain?: boolean
  /** Puts a new tree with our lock in it at the session's path. */
  createTree: () => Promise<void>
}

/** Which tree the session runs on. */
export interface SessionTree {
  /** `local`: the one that was there. `hydrated`: restored just now. `created`: a new one. */
  tree: 'local' | 'hydrated' | 'created'
  /** The tree that was there lies here now, and the lock that the caller held went with it. */
  keptAt?: string
  /** The store couldn't be asked: the question is open until the first commit, and is decided on what was there at boot. */
  undecided?: TreeAtBoot
  hydration?: HydrateResult
  /** The tree holds completed turns that no commit does. */
  owesTurns?: boolean
}

/**
 * Settles the tree of a session whose commits form a chain, and claims the session for it.
 *
 * @param onDoubt the store didn't answer: what it was asked is asked again before the first commit
 * @throws what {@link CommitChain.boot} throws; StaleLocalTreeError; under `strict`, why the claim isn't settled
 */
export async function bootChain(
  run: RunContext,
  chain: CommitChain,
  { fresh = false, beginAgain = false, ...options }: SessionTreeOptions,
  onDoubt: (error: Error) => void,
): Promise<SessionTree> {
  const { sessionId, sessionDir, logger, policy, record, claims, bootId, committed } = run
  const atBoot = options.localExists ? await lookAtBoot(sessionDir, logger) : undefined
  const trees = new ChainTrees({ ...run, onUnreachable: onDoubt }, run, { options, chain, atBoot })
  let boot: ChainBoot
  try {
    boot = await chain.boot(trees, { lazy: claims === 'first-commit', fresh, beginAgain, signal: options.signal })
  } catch (error) {
    await chain.close()
    // Once the tree is to be replaced, it is known not to be the newest: there is nothing to go on with.
    if (trees.atBoot === undefined || trees.isReplacing || options.signal?.aborted === true || !isOutage(error)) {
      await trees.giveUp()
      throw error
    }
    logger.warn(
      { err: error, session_id: sessionId },
      'the store can not be asked for the session; using the local tree',
    )
    onDoubt(error as Error)
    await record.begin(beforeDecision(trees.previous, bootId, trees.atBoot.journal))
    return { tree: 'local', undecided: trees.atBoot }
  }
  if (boot.doubt !== undefined && policy === 'strict') {
    await chain.close()
    await trees.giveUp()
    throw boot.doubt
  }
  committed.current = boot.committed
  if (trees.atBoot !== undefined) await record.begin(onTopOf(trees.previous, boot.committed))
  else if (boot.committed !== undefined) record.committed(boot.committed, boot.committed.journal.last_seq)
  await chain.adopt()
  if (boot.doubt !== undefined) {
    logger.warn({ err: boot.doubt, session_id: sessionId }, 'the session is not claimed yet; its next commit claims it')
    onDoubt(boot.doubt)
  }
  return trees.resolution(boot.committed)
}

/** The trees of a session at boot. */
class ChainTrees implements BootTrees {
  /** The tree that this boot found; undefined once another is in its place. */
  atBoot: TreeAtBoot | undefined
  isReplacing = false
  readonly previous: MachineRecord | undefined
  readonly #resolver: TreeResolver
  readonly #run: RunContext
  readonly #options: Omit<SessionTreeOptions, 'fresh' | 'beginAgain'>
  readonly #chain: CommitChain
  /** What this boot put at the session's path. Nobody has worked in it, and nothing of it is kept. */
  #own: 'hydrated' | 'created' | undefined
  #fault: { kind: 'torn' } | { kind: 'lost-content'; forked: boolean } | { kind: 'given-up' } | undefined
  #found: { keptAt?: string; hydration?: HydrateResult } = {}
  #isCaptured = false

  constructor(
    resolver: TreeResolver,
    run: RunContext,
    {
      options,
      chain,
      atBoot,
    }: {
      options: Omit<SessionTreeOptions, 'fresh' | 'beginAgain'>
      chain: CommitChain
      atBoot: TreeAtBoot | undefined
    },
  ) {
    this.#resolver = resolver
    this.#run = run
    this.#options = options
    this.#chain = chain
    this.atBoot = atBoot
    this.previous = readMachineRecord(run.sessionsRoot, run.sessionId)
  }

  get isThere(): boolean {
    return this.atBoot !== undefined || this.#own !== undefined
  }

  begins(): void {
    refuseForgotten(this.#resolver, this.previous)
  }

  async accepts(head: Committed): Promise<boolean> {
    const { bootId, logger, sessionId } = this.#run
    if (this.atBoot === undefined) return true
    const held = heldRecord(this.previous, head, this.#chain.treeBootId)
    const verdict = judgeLocalTree(bootId, held, head, this.atBoot)
    if (verdict.kind === 'torn' || verdict.kind === 'lost-content') this.#fault = verdict
    else if (this.#options.giveUpLocal === true && !holdsUnstoredTurns(held, this.atBoot.journal))
      this.#fault = { kind: 'given-up' }
    else if (verdict.kind === 'torn-but-newer')
      logger.error({ session_id: sessionId, remote_generation: head.generation }, WHY_KEPT[verdict.kind])
    return this.#fault === undefined
  }

  async restore(generation: number): Promise<void> {
    const { atBoot, previous } = this
    this.isReplacing = true
    if (atBoot === undefined) {
      await this.#dropOwn()
      this.#found = { ...this.#found, ...pick(await hydrate(this.#resolver, this.#options, previous)) }
    } else {
      const verdict = this.#fault ?? this.#stale(atBoot, generation)
      const known = { previous, journal: atBoot.journal, remoteGeneration: generation }
      this.#found = pick(await replaceTree(verdict, this.#resolver, this.#options, known))
    }
    this.atBoot = undefined
    this.#own = 'hydrated'
  }

  async renew(): Promise<void> {
    const { record, sessionDir } = this.#run
    this.isReplacing = true
    await this.#dropOwn()
    const before = this.atBoot
    const isForked = before !== undefined && holdsUnstoredTurns(this.previous, before.journal)
    const keptAt = before === undefined ? undefined : await setAside(this.#resolver, sessionDir, isForked)
    try {
      await record.begin({})
      await this.#options.createTree()
    } catch (error) {
      if (keptAt !== undefined && !existsSync(sessionDir)) await giveBack(keptAt, sessionDir)
      throw error
    }
    this.atBoot = undefined
    this.#own = 'created'
    if (keptAt !== undefined) await this.#tellRemoved(keptAt, isForked)
  }

  async #tellRemoved(keptAt: string, forked: boolean): Promise<void> {
    const { sessionId, logger } = this.#run
    await rm(join(keptAt, LOCK_FILE), { force: true })
    const about = { session_id: sessionId, kept_at: keptAt, forked }
    logger.warn(about, 'the session was removed from the store and begins anew: its local tree was set aside')
    this.#found = { keptAt }
  }

  async capture<T>(use: (captured: CapturedTree) => Promise<T>): Promise<T> {
    const { journal: _, storage: __, committed: ___, ...run } = this.#run
    const nonce = randomBytes(16).toString('hex')
    this.#isCaptured = true
    return await captureTree(
      { ...run, signal: this.#options.signal, trigger: 'claim', generation: 1, nonce, sequence: 0 },
      use,
    )
  }

  /** The boot failed: a tree that it created is no session. */
  async giveUp(): Promise<void> {
    if (this.#own === 'created') await rm(this.#run.sessionDir, { recursive: true, force: true })
  }

  resolution(committed: Committed | undefined): SessionTree {
    if (this.atBoot === undefined) return { tree: this.#own ?? 'created', ...this.#found }
    if (committed === undefined) return { tree: 'local' }
    const held = heldRecord(this.previous, committed, this.#chain.treeBootId)
    const owesTurns = this.#isCaptured ? committed.unstored.length > 0 : holdsUnstoredTurns(held, this.atBoot.journal)
    return { tree: 'local', owesTurns }
  }

  #stale({ journal }: TreeAtBoot, generation: number): { kind: 'stale'; forked: boolean } {
    const { previous } = this
    const { committed } = previous ?? {}
    // By its nonce the machine may call a commit its own that the tree was rolled back behind.
    const record =
      previous === undefined || committed === undefined
        ? undefined
        : { ...previous, committed: { generation: committed.generation, nonce: '' }, pending: [] }
    const remote = { generation, nonce: 'theirs', lastSeq: 0 }
    const verdict = judgeTree({ record, bootId: this.#run.bootId, remote, journal })
    return { kind: 'stale', forked: verdict.kind === 'stale' && verdict.forked }
  }

  async #dropOwn(): Promise<void> {
    if (this.#own === undefined) return
    this.#own = undefined
    await dropTree(this.#resolver)
  }
}

function pick({ keptAt, hydration }: { keptAt?: string; hydration?: HydrateResult }): {
  keptAt?: string
  hydration?: HydrateResult
} {
  return { ...(keptAt === undefined ? {} : { keptAt }), ...(hydration === undefined ? {} : { hydration }) }
}
