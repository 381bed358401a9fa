import { randomBytes } from 'node:crypto'
import { isNexusError, NexusError } from '@nexus/errors'
import { readLocalJournal } from './boot/local-journal.ts'
import { holdsUnstoredTurns, readMachineRecord } from './boot/machine-record.ts'
import { resolveTree, type ResolveTreeOptions, type TreeResolution, type TreeResolver } from './boot/resolve-tree.ts'
import { takeSnapshot } from './commit/snapshot.ts'
import type { StoreLedger } from './outage/store-ledger.ts'
import type { RunContext } from './run-context.ts'
import type { Committed } from './tree/committed.ts'

/** Whether the session is this run's. `claimed` also where the layout knows no claims, or the first commit makes it. */
export type ClaimOutcome = 'claimed' | 'lost'

/** So often a boot claims a session that others keep on committing to. */
const ATTEMPTS = 8

/** Takes a session from the host that had it before, where a chain of commits can tell whose it is. */
export class SessionClaim {
  readonly #run: RunContext
  readonly #ledger: StoreLedger

  constructor(run: RunContext, ledger: StoreLedger) {
    this.#run = run
    this.#ledger = ledger
  }

  /**
   * Claims the session of a tree that was just resolved. Where others committed meanwhile, their tree is fetched first.
   *
   * @throws what {@link resolveTree} throws; `UNAVAILABLE` when others kept on committing; under `strict`, the store's error
   */
  async ofTree(found: TreeResolution, resolver: TreeResolver, options: ResolveTreeOptions): Promise<TreeResolution> {
    const { layout, sessionsRoot, sessionId, logger } = this.#run
    const before = readMachineRecord(sessionsRoot, sessionId)
    let resolution = found
    for (let losses = 1; (await this.#try(resolution, options.signal)) === 'lost'; losses++) {
      if (losses === ATTEMPTS) throw this.#contended()
      const again = await resolveTree(resolver, { ...options, localExists: true, giveUpLocal: false })
      const tree = resolution.tree === 'hydrated' ? 'hydrated' : again.tree
      const keptAt = resolution.keptAt ?? again.keptAt
      resolution = { ...again, tree, ...(keptAt === undefined ? {} : { keptAt }) }
    }
    if (layout.chain === undefined || resolution.tree !== 'local' || resolution.undecided !== undefined)
      return resolution
    return {
      ...resolution,
      owesTurns: holdsUnstoredTurns(before, await readLocalJournal(this.#run.sessionDir, logger)),
    }
  }

  /**
   * Claims a session whose tree was created just now: its first commit holds that tree.
   *
   * @throws under `strict`, the store's error
   */
  async ofNewTree(signal: AbortSignal | undefined): Promise<ClaimOutcome> {
    const { journal: _, storage: __, committed: ___, ...run } = this.#run
    const { layout, claims } = run
    if (layout.chain === undefined || claims === 'first-commit') return 'claimed'
    try {
      const claim = await takeSnapshot({
        ...run,
        signal,
        trigger: 'claim',
        generation: 1,
        nonce: randomBytes(16).toString('hex'),
        sequence: 0,
        beforeCommit: async () => undefined,
      })
      this.#claimed(claim.committed)
    } catch (error) {
      signal?.throwIfAborted()
      if (isNexusError(error, 'FENCED')) {
        await layout.chain.close()
        return 'lost'
      }
      this.#unclaimed(error as Error)
    }
    return 'claimed'
  }

  async #try({ tree, undecided }: TreeResolution, signal: AbortSignal | undefined): Promise<ClaimOutcome> {
    const { layout, claims } = this.#run
    const isOpen = tree === 'absent' || undecided !== undefined
    if (layout.chain === undefined || claims === 'first-commit' || isOpen) return 'claimed'
    try {
      const claim = await layout.chain.claim(signal)
      if (claim === 'lost') return 'lost'
      this.#claimed(claim)
    } catch (error) {
      signal?.throwIfAborted()
      this.#unclaimed(error as Error)
    }
    return 'claimed'
  }

  #claimed(claim: Committed): void {
    this.#run.committed.current = claim
    this.#run.record.committed(claim, claim.journal.last_seq)
  }

  /** A claim that the store didn't confirm goes out again before anything else is committed. */
  #unclaimed(error: Error): void {
    const { policy, logger, sessionId } = this.#run
    if (policy === 'strict') throw error
    logger.warn({ err: error, session_id: sessionId }, 'the session could not be claimed; its next commit claims it')
    this.#ledger.treeUnreachable(error)
  }

  #contended(): NexusError {
    const { sessionId } = this.#run
    const message = `session ${sessionId}: other hosts keep on committing to it; boot it on one of them`
    return new NexusError('UNAVAILABLE', message, { op: 'durability.claim', key: sessionId })
  }
}
