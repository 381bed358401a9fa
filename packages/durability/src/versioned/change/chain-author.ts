import { hostname } from 'node:os'
import process from 'node:process'
import { isNexusError, NexusError } from '@nexus/errors'
import { type Failpoint, type Logger, noFailpoint, silentLogger, systemProcesses } from '@nexus/host'
import { pause } from '@nexus/objectstore'
import { identityOf, refuseLiveOwner } from '../../owner/live-owner.ts'
import type { CommitFacts, CommitId, CommitKind } from '../core/commit-facts.ts'
import { CommitLine } from '../core/commit-line.ts'
import { SessionReclaimStore } from '../store/write/reclaim-store.ts'
import { type CommitBase, type CommitContext, prepareBare, type PreparedCommit } from '../store/write/prepare-commit.ts'
import type { TreeState } from '../store/tree-state.ts'
import type { HistoryOptions, HistorySource } from '../history/history-source.ts'

/** How a session is changed by somebody who doesn't run it. */
export interface ChangeOptions extends HistoryOptions {
  /** Although its owner looks live: that host has lost the session then. Default false. */
  force?: boolean | undefined
  /** Where the session may lie and be locked on this machine; left out by a caller that holds its lock. */
  sessionsRoot?: string | undefined
  logger?: Logger | undefined
  failpoint?: Failpoint | undefined
}

/** Who makes commits that no run of an engine makes. */
export const TOOL_INSTANCE = 'tool'

/**
 * Refuses to change a session whose owner looks live.
 *
 * @throws SessionOwnedError (`LOCKED`)
 */
export async function refuseLive(source: HistorySource, { force = false, sessionsRoot }: ChangeOptions): Promise<void> {
  const { objects, sessionId, clock, loading } = source
  const { store, scratchDir } = objects.place
  const identity = identityOf({ host: hostname(), pid: process.pid, instanceId: TOOL_INSTANCE })
  const look = { store, sessionId, scratchDir, identity, nowMs: clock.now(), sessionsRoot, signal: loading.signal }
  await refuseLiveOwner(look, { force })
}

/** What commits are made with by somebody who doesn't run the session. */
export function authorContext(
  { objects, clock }: HistorySource,
  { logger = silentLogger, failpoint = noFailpoint, ttlMs }: ChangeOptions & { ttlMs?: number | undefined },
): CommitContext {
  const machine = { machine_id: systemProcesses.self().bootId, pid: process.pid }
  return {
    objects,
    clock,
    logger,
    failpoint,
    owner: { instance_id: TOOL_INSTANCE, ...machine },
    epoch: 0,
    verifyContent: 'auto',
    ttlMs,
    onPack: () => undefined,
  }
}

/** What follows a commit and holds nothing of it, or its tree where that is given. */
export function baseOn(parent: CommitFacts | undefined, generation: number, state?: TreeState): CommitBase {
  const link =
    parent === undefined
      ? undefined
      : { generation: parent.generation, nonce: parent.nonce, header_sha256: parent.digest }
  return { parent: state, link, generation, kept: [], lastStartNs: undefined }
}

/** A commit of nothing but its kind, or of the tree of the state. */
export async function prepareEmpty(
  source: HistorySource,
  kind: CommitKind,
  base: CommitBase,
  options: ChangeOptions & { ttlMs?: number | undefined },
): Promise<PreparedCommit> {
  const { slices, signal } = source.loading
  return await prepareBare(authorContext(source, options), base, kind, slices, signal)
}

/** How long an answer is waited for again that a store didn't give. */
const AGAIN_AFTER_MS: readonly number[] = [100, 1000, 5000, 15_000]

/**
 * Commits what `prepare` makes, behind the parent, and sends the same bytes until the store says what became of them.
 *
 * @returns the commit, or 'lost' when its number is another's
 * @throws `UNAVAILABLE` when the store doesn't say it: the commit may have landed
 */
export async function commitBehind(
  { sessionId, commits, clock, loading }: HistorySource,
  parent: CommitId | undefined,
  prepare: (generation: number) => Promise<PreparedCommit>,
): Promise<PreparedCommit | 'lost'> {
  const line = new CommitLine<PreparedCommit>(commits, async () => undefined, { parent, earlier: [] })
  let outcome = await line.commit(async (_parent, generation) => {
    const prepared = await prepare(generation)
    commits.check(prepared)
    return prepared
  })
  for (const delayMs of AGAIN_AFTER_MS) {
    if (outcome.is !== 'unknown') break
    await pause(delayMs, loading.signal, clock)
    const settled = await line.settle()
    if (settled.is !== 'settled') outcome = settled
  }
  if (outcome.is === 'committed') return outcome.attempt
  if (outcome.is === 'lost') return 'lost'
  throw new NexusError(
    'UNAVAILABLE',
    `session ${sessionId}: the store did not say whether the commit landed; look with sessions history, and try again`,
    { op: 'history.commit', key: sessionId, cause: outcome.cause },
  )
}

/** Does once more what the store didn't answer: only for what is the same when it is done twice. */
export async function untilAnswered<T>({ clock, loading }: HistorySource, act: () => Promise<T>): Promise<T> {
  for (const delayMs of AGAIN_AFTER_MS) {
    try {
      return await act()
    } catch (error) {
      loading.signal?.throwIfAborted()
      if (!isNexusError(error) || !['UNAVAILABLE', 'OUTCOME_UNKNOWN'].includes(error.code)) throw error
      await pause(delayMs, loading.signal, clock)
    }
  }
  return await act()
}

/** The objects of the session, for taking them away. */
export function reclaimStoreOf(
  { commits, objects, clock, loading }: HistorySource,
  failpoint?: Failpoint,
): SessionReclaimStore {
  return new SessionReclaimStore(commits, objects, { clock, signal: loading.signal, failpoint })
}
