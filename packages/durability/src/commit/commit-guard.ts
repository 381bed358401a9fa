import { join } from 'node:path'
import { isNexusError, NexusError } from '@nexus/errors'
import type { MachineRecord } from '../boot/machine-record.ts'
import { heldRecord, judgeLocalTree, type TreeAtBoot } from '../boot/resolve-tree.ts'
import { WHY_KEPT } from '../boot/tree-verdict.ts'
import type { Committed, CommitHead, CommitPair } from '../tree/committed.ts'
import type { RunContext } from '../run-context.ts'
import { readLocalJournal } from '../boot/local-journal.ts'

/**
 * Stands before everything that is put: the store must hold a generation that this run made or builds on.
 *
 * A generation and nonce that aren't ours were put by another host: that is certain, not a guess. Unless `on_lost` is
 * `overwrite`, the run's fence then falls. A look and the put that follows are two requests, so this narrows the window in
 * which a host that stands still between them overwrites another's commit; it can't close it.
 *
 * @see docs/concepts/durability.md
 */
export class CommitGuard {
  readonly #run: RunContext
  /** What the local tree held at boot, as long as it is undecided which tree is true. */
  #atBoot: TreeAtBoot | undefined
  #lookedAtMs: number
  #looking: Promise<void> | undefined
  #notedSegment = 0

  constructor(run: RunContext) {
    this.#run = run
    this.#lookedAtMs = run.clock.now()
  }

  /** The store could not be asked at boot which tree is true. */
  get undecided(): boolean {
    return this.#atBoot !== undefined
  }

  /**
   * The question of boot is asked again before the first commit.
   *
   * @param tree what the local tree held at boot
   */
  postpone(tree: TreeAtBoot): void {
    this.#atBoot = tree
  }

  /**
   * Asks, where commits form a chain, what boot could not: whether this run's tree is the newest.
   *
   * @throws `FENCED` when it isn't, or the session is gone; the store's error
   */
  async judgeLate(signal: AbortSignal | undefined): Promise<void> {
    const { layout, fence } = this.#run
    fence.check()
    if (this.#atBoot === undefined || layout.chain === undefined) return
    const verdict = await layout.chain.judgeLate(signal)
    if (verdict.is === 'serving') return
    this.#announceStale(verdict.winner, await this.#hasTurnsOfItsOwn(this.#run.record.current))
    this.#atBoot = undefined
    this.lost(verdict.winner, verdict.reason)
  }

  /**
   * Passes when this run may commit on top of the generation that the store holds now.
   *
   * @throws `FENCED` when another host committed; `PRECONDITION` when the local tree may be torn and holds nothing new
   */
  async check(held: Committed | undefined): Promise<void> {
    const { fence, record, committed, journal, layout } = this.#run
    fence.check()
    if (this.#atBoot !== undefined) await this.#decideAgain(held, this.#atBoot)
    // Where commits form a chain, the number of the next one tells whose the session is.
    if (held !== undefined && layout.chain === undefined && !record.isOurs(held)) {
      this.#lose({ generation: held.generation, nonce: held.nonce, instanceId: held.instance_id })
    } else if (held !== undefined && held.nonce !== record.current.committed?.nonce) {
      // One of our own commits whose answer was lost: it counts from now on.
      record.committed(held, held.journal.last_seq)
    }
    this.#lookedAtMs = this.#run.clock.now()
    const segment = committed.highestSealedSegment ?? 0
    if (segment <= this.#notedSegment) return
    journal?.noteCommittedSegment(segment)
    this.#notedSegment = segment
  }

  /**
   * Looks again at who committed last: a few bytes. Before a heartbeat claims the session anew, and right before what a
   * commit overwrites. Decides nothing while the question of boot is open.
   *
   * @param building what is about to be put: the store must hold a lower generation, for generations never go backwards
   * @throws `FENCED` when another host committed, the store's error when it fails
   */
  async confirm(signal: AbortSignal | undefined, building?: CommitPair): Promise<void> {
    const { layout, sessionId, fence, record, clock } = this.#run
    // In a chain the number of the next commit tells whose the session is, and no look before it can.
    if (layout.chain !== undefined) return fence.check()
    const head = await layout.head(signal)
    fence.check()
    this.#lookedAtMs = clock.now()
    if (head !== undefined && !this.undecided && !record.isOurs(head)) this.#lose(head)
    if (head === undefined || building === undefined || head.nonce === building.nonce) return
    if (head.generation >= building.generation) {
      throw new NexusError(
        'PRECONDITION',
        `session ${sessionId}: the store holds generation ${head.generation} by now, and this snapshot would be ${building.generation}; ` +
          'the next one goes above it',
        { op: 'durability.snapshot', key: sessionId, retryable: true },
      )
    }
  }

  /**
   * Another host's commit has the number of ours: the run has ended as a writer.
   *
   * @param reason what is there instead of another host's commit: damage, or the end of the session
   */
  lost(winner: CommitHead | undefined, reason?: Error): never {
    const { fence, record, sessionId } = this.#run
    const next = (record.current.committed?.generation ?? 0) + 1
    this.#lose(winner ?? { generation: next, nonce: '', instanceId: '' }, reason)
    fence.check()
    throw new NexusError('FENCED', `another host has session ${sessionId}`, {
      op: 'durability.snapshot',
      key: sessionId,
    })
  }

  /** {@link confirm}, shared, if the last look is that old: this process stood still, or the store was silent. */
  async confirmIfOld(ageMs: number, signal?: AbortSignal, building?: CommitPair): Promise<void> {
    if (this.#run.clock.now() - this.#lookedAtMs < ageMs) return
    if (ageMs === 0) return await this.confirm(signal, building)
    this.#looking ??= this.confirm(signal, building).finally(() => (this.#looking = undefined))
    await this.#looking
  }

  async #decideAgain(held: Committed | undefined, tree: TreeAtBoot): Promise<void> {
    const { record, bootId, staleLocal, onLost, sessionId, logger, layout } = this.#run
    const { chain } = layout
    const isHeld = chain !== undefined && held !== undefined
    const known = isHeld ? heldRecord(record.current, held, chain.treeBootId) : record.current
    const verdict = judgeLocalTree(bootId, known, held, tree)
    // Turns of this run make a fork of a stale tree, and don't make a torn one whole.
    const forked = verdict.kind === 'stale' && (verdict.forked || (await this.#hasTurnsOfItsOwn(record.current)))
    if (verdict.kind === 'torn') {
      throw new NexusError(
        'PRECONDITION',
        `session ${sessionId}: the machine went down without a stop, and the local tree holds no turn that the store lacks; ` +
          'not storing what may be torn. Restart the session to restore the committed tree',
        { op: 'durability.snapshot', key: sessionId },
      )
    }
    if (verdict.kind === 'lost-content') {
      throw new NexusError(
        'PRECONDITION',
        `session ${sessionId}: the local tree lost its conversation, its journal or a database, which the committed one has; not storing over it. ` +
          'Restart the session to restore the committed tree',
        { op: 'durability.snapshot', key: sessionId },
      )
    }
    const isKept = verdict.kind === 'torn-but-newer' || staleLocal === 'keep' || onLost === 'overwrite'
    if ((verdict.kind === 'torn-but-newer' || verdict.kind === 'stale') && held !== undefined) {
      const about = { session_id: sessionId, remote_generation: held.generation, forked }
      if (isKept) logger.error(about, WHY_KEPT[verdict.kind])
      else this.#announceStale(held, forked)
      if (isKept && verdict.kind === 'stale') record.committed(held, record.current.lastSeq)
    }
    this.#atBoot = undefined
    if (verdict.kind === 'live' && held !== undefined) record.committed(held, held.journal.last_seq)
    record.adoptBoot(bootId)
    await chain?.adopt()
  }

  async #hasTurnsOfItsOwn({ lastSeq }: Readonly<MachineRecord>): Promise<boolean> {
    const { sessionsRoot, sessionId, logger } = this.#run
    const { turnEnd } = await readLocalJournal(join(sessionsRoot, sessionId), logger)
    return turnEnd === undefined || turnEnd > lastSeq
  }

  /** Plugins work on the tree, so it can't be set aside now; the next boot does that. */
  #announceStale(held: CommitPair, forked: boolean): void {
    const { outbox, record, sessionId, sessionsRoot } = this.#run
    outbox.post('session.local.stale', {
      session_id: sessionId,
      local_generation: record.current.committed?.generation ?? 0,
      remote_generation: held.generation,
      forked,
      kept_at: join(sessionsRoot, sessionId),
    })
  }

  #lose(held: CommitHead, reason?: Error): void {
    const { record, onLost, outbox, logger, fence, sessionId } = this.#run
    const ours = record.current.committed?.generation ?? 0
    // Generations only grow: a lower one was put by a host that had stood still, over commits that it never saw.
    const isForked = held.generation <= ours
    const about = { our_generation: ours, their_generation: held.generation, their_instance_id: held.instanceId }
    logger.error(
      { session_id: sessionId, ...about, forked: isForked },
      onLost === 'overwrite'
        ? 'another host committed this session; on_lost is overwrite, so its commit is hidden by the next one'
        : 'another host committed this session; this run writes nothing more to the store',
    )
    outbox.post('session.owner.lost', { session_id: sessionId, ...about })
    if (onLost === 'overwrite') return record.committed(held, record.current.lastSeq)
    fence.fall(reason === undefined ? this.#takenBy(held, isForked ? ours : undefined) : this.#ended(reason))
    fence.check()
  }

  #takenBy({ generation, instanceId }: CommitHead, forkedOver: number | undefined): NexusError {
    const { sessionId } = this.#run
    const over = forkedOver === undefined ? '' : `, over generation ${forkedOver} of this run: the session has forked`
    return new NexusError(
      'FENCED',
      `session ${sessionId} was committed by instance ${instanceId || 'unknown'} (generation ${generation}${over}) while this run held it; ` +
        'this run has ended. Stop it: its tree is kept, and the next boot sets it aside',
      { op: 'durability.snapshot', key: sessionId },
    )
  }

  #ended(reason: Error): NexusError {
    const { sessionId } = this.#run
    const isDamage = isNexusError(reason, 'CORRUPT') || isNexusError(reason, 'UNSUPPORTED')
    const message = `session ${sessionId} can not be committed any more: ${reason.message}. This run has ended; its tree is kept`
    return new NexusError(isDamage ? 'CORRUPT' : 'FENCED', message, {
      op: 'durability.snapshot',
      key: sessionId,
      cause: reason,
    })
  }
}
