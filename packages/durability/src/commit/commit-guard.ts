import { join } from 'node:path'
import { NexusError } from '@nexus/errors'
import type { Logger } from '@nexus/host'
import { readLocalJournal } from '../tree/local-journal.ts'
import type { EventOutbox } from '../outage/event-outbox.ts'
import type { MachineRecord, MachineRecordFile } from '../boot/machine-record.ts'
import type { CommitHead } from '../mirror/manifest-store.ts'
import type { Manifest } from '../mirror/manifest.ts'
import { judgeLocalTree, type TreeAtBoot } from '../boot/resolve-tree.ts'
import type { StaleLocalPolicy } from '../boot/tree-verdict.ts'

/** What a run does when another host has committed over it. */
export type OnLostPolicy = 'stop' | 'overwrite'

export interface CommitGuardOptions {
  sessionId: string
  sessionsRoot: string
  bootId: string
  staleLocal: StaleLocalPolicy
  onLost: OnLostPolicy
  record: MachineRecordFile
  outbox: EventOutbox
  logger: Logger
  /** This run may not write to the store any more. */
  onLoss: (error: NexusError) => void
}

/**
 * Stands before every commit: the store must hold a generation that this run made or builds on.
 *
 * A generation and nonce that aren't ours were put by another host: that is certain, not a guess. Unless
 * `on_lost` is `overwrite`, this run then never writes to the store again.
 *
 * @see spec 60, Turn-boundary snapshot, step 0; Which tree is true
 */
export class CommitGuard {
  readonly #options: CommitGuardOptions
  /** What the local tree held at boot, as long as it is undecided which tree is true. */
  #atBoot: TreeAtBoot | undefined
  #lost: NexusError | undefined

  constructor(options: CommitGuardOptions) {
    this.#options = options
  }

  /** Why nothing may be written any more; undefined while this run owns the session. */
  get lost(): NexusError | undefined {
    return this.#lost
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
   * Passes when this run may commit on top of the generation that the store holds now.
   *
   * @throws `FENCED` when another host committed; `PRECONDITION` when the local tree may be torn and holds nothing new
   */
  async check(held: Manifest | undefined): Promise<void> {
    if (this.#lost !== undefined) throw this.#lost
    if (this.#atBoot !== undefined) await this.#decideAgain(held, this.#atBoot)
    if (held === undefined) return
    const { record } = this.#options
    if (record.isOurs(held)) {
      // One of our own commits whose answer was lost: it counts from now on.
      if (held.nonce !== record.current.committed?.nonce) record.committed(held, held.journal.last_seq)
      return
    }
    this.#lose({ generation: held.generation, nonce: held.nonce, instanceId: held.instance_id })
  }

  /**
   * The same look between two snapshots, when only who committed last is known. Nothing is decided while the question of
   * boot is open.
   *
   * @throws `FENCED` when another host committed
   */
  checkHead(head: CommitHead | undefined): void {
    if (this.#lost !== undefined) throw this.#lost
    if (this.undecided || head === undefined || this.#options.record.isOurs(head)) return
    this.#lose(head)
  }

  async #decideAgain(held: Manifest | undefined, tree: TreeAtBoot): Promise<void> {
    const { record, bootId, staleLocal, onLost, sessionId, logger } = this.#options
    const verdict = judgeLocalTree(bootId, record.current, held, tree)
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
    if (verdict.kind === 'torn-but-newer') {
      logger.error(
        { session_id: sessionId },
        'the machine went down without a stop, and the local tree holds turns that the store lacks: storing it as it is',
      )
    }
    if (verdict.kind === 'stale' && held !== undefined) {
      if (staleLocal === 'keep' || onLost === 'overwrite') {
        logger.error(
          { session_id: sessionId, remote_generation: held.generation, forked },
          'the local tree is older than the store and is kept: this commit hides what another host committed',
        )
        record.committed(held, record.current.lastSeq)
      } else this.#announceStale(held, forked)
    }
    this.#atBoot = undefined
    record.adoptBoot(bootId)
  }

  async #hasTurnsOfItsOwn({ lastSeq }: Readonly<MachineRecord>): Promise<boolean> {
    const { sessionsRoot, sessionId, logger } = this.#options
    const { turnEnd } = await readLocalJournal(join(sessionsRoot, sessionId), logger)
    return turnEnd === undefined || turnEnd > lastSeq
  }

  /** Plugins work on the tree, so it can't be set aside now; the next boot does that. */
  #announceStale(held: Manifest, forked: boolean): void {
    const { outbox, record, sessionId, sessionsRoot } = this.#options
    outbox.post('session.local.stale', {
      session_id: sessionId,
      local_generation: record.current.committed?.generation ?? 0,
      remote_generation: held.generation,
      forked,
      kept_at: join(sessionsRoot, sessionId),
    })
  }

  #lose(held: CommitHead): void {
    const { record, onLost, outbox, logger, sessionId } = this.#options
    const ours = record.current.committed?.generation ?? 0
    logger.error(
      {
        session_id: sessionId,
        our_generation: ours,
        their_generation: held.generation,
        their_instance_id: held.instanceId,
      },
      onLost === 'overwrite'
        ? 'another host committed this session; on_lost is overwrite, so its commit is hidden by the next one'
        : 'another host committed this session; this run writes nothing more to the store',
    )
    outbox.post('session.owner.lost', {
      session_id: sessionId,
      our_generation: ours,
      their_generation: held.generation,
      their_instance_id: held.instanceId,
    })
    if (onLost === 'overwrite') return record.committed(held, record.current.lastSeq)
    this.#lost = new NexusError(
      'FENCED',
      `session ${sessionId} was committed by instance ${held.instanceId || 'unknown'} (generation ${held.generation}) while this ` +
        'run held it; nothing more is written to the store. Stop this run: its tree is kept, and the next boot sets it aside',
      { op: 'durability.snapshot', key: sessionId },
    )
    this.#options.onLoss(this.#lost)
    throw this.#lost
  }
}
