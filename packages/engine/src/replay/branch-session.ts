import { join } from 'node:path'
import { NexusError } from '@nexus/errors'
import { systemClock, within } from '@nexus/host'
import { type Coordinator, TURN_TIMEOUT_MS } from '@nexus/journal'
import type { EventMap } from '../bus/event-map.ts'
import type { LoadedConfig } from '../config/load.ts'
import { readSessionMeta, type SessionMeta } from '../session/meta.ts'
import type { BranchedTurn, BranchOptions, BranchReport, SessionTotals } from './branch-report.ts'
import { changedFiles } from './changed-files.ts'
import { asReplayed, compareTurns, sameEvent } from './compare-turns.ts'
import { GivenInputs } from './given-inputs.ts'
import { JournaledAnswers } from './journaled-answers.ts'
import { openCoordinator, type OpenScratch, Scratch } from './scratch.ts'
import { type JournaledTurn, turnEvents } from './turn-events.ts'

/** See `Engine.replay`. */
export async function branchSession(
  sessionId: string,
  loaded: LoadedConfig,
  other: LoadedConfig,
  options: BranchOptions,
  open: OpenScratch,
): Promise<BranchReport> {
  const { fromTurn, keepIn, signal } = options
  const sessionDir = join(loaded.config.core.sessions.root, sessionId)
  const journalDir = join(sessionDir, 'journal')
  const coordinator = await openCoordinator(journalDir, sessionId, signal)
  const before = await split(turnEvents(journalDir, signal), fromTurn)
  refuseUnknownTurn(fromTurn, before)
  const scratch = await Scratch.make(sessionDir, sessionId, keepIn)
  try {
    const notRebuilt = await takeAsItWas(sessionId, scratch.config(loaded), before.kept, coordinator, options, open)
    const meta = await takeAnew(sessionId, scratch.config(other), before.branched, options, open)
    const after = await split(turnEvents(scratch.journalDir, signal), fromTurn)
    const { firstDifference } = await compareTurns(each(before.kept), each(after.kept))
    const original = await readSessionMeta(sessionDir)
    return {
      fromTurn,
      ...(firstDifference === undefined ? {} : { firstDifference }),
      turns: before.branched.map((turn, at) => branchedTurn(fromTurn + at, turn, after.branched[at])),
      files: await changedFiles(sessionDir, scratch.sessionDir),
      totals: { before: totalsOf(original), after: totalsOf(meta) },
      notRebuilt,
      ...(keepIn === undefined ? {} : { dir: scratch.sessionDir }),
    }
  } finally {
    await scratch.remove()
  }
}

/** What lies before a turn, and what from it on. */
interface SplitTurns {
  kept: JournaledTurn[]
  branched: JournaledTurn[]
}

async function split(turns: AsyncIterable<JournaledTurn>, fromTurn: number): Promise<SplitTurns> {
  const found: SplitTurns = { kept: [], branched: [] }
  let count = 0
  for await (const turn of turns) {
    const isBefore = count < fromTurn - 1
    if (turn.kind === 'turn') count++
    found[isBefore ? 'kept' : 'branched'].push(turn)
  }
  return found
}

function refuseUnknownTurn(fromTurn: number, { kept, branched }: SplitTurns): void {
  if (Number.isInteger(fromTurn) && fromTurn >= 1 && branched.length > 0) return
  const turns = [...kept, ...branched].filter(({ kind }) => kind === 'turn').length
  throw new NexusError('INVALID_ARGUMENT', `there is no turn ${fromTurn} to branch from: the session has ${turns}`, {
    op: 'engine.replay',
  })
}

/** Brings the scratch session to where the branch begins. Returns the tools that were not run again. */
async function takeAsItWas(
  sessionId: string,
  scratch: LoadedConfig,
  turns: readonly JournaledTurn[],
  coordinator: Coordinator,
  { turnTimeoutMs, signal, plugins, logger, clock, asyncContext, useConfigSnapshot }: BranchOptions,
  open: OpenScratch,
): Promise<string[]> {
  const answers = new JournaledAnswers(coordinator)
  const inputs = new GivenInputs(coordinator)
  for (const turn of turns) {
    answers.learn(turn)
    inputs.learn(turn)
  }
  const given = defined({ plugins, logger, clock, asyncContext, useConfigSnapshot })
  const engine = await open(scratch, { ...given, recallSessionId: sessionId }, 'rebuilding')
  answers.answerOn(engine.bus, true)
  await engine.boot()
  try {
    const last = turns.findLast(({ kind }) => kind === 'turn')?.input.event_id
    const count = coordinator.completedInputs.findIndex(({ event_id: id }) => id === last) + 1
    await coordinator.run(inputs.through(engine.bus, count), {
      inputs: count,
      ...defined({ turnTimeoutMs, signal, clock }),
    })
  } finally {
    await engine.stop()
  }
  return [...answers.told].toSorted()
}

/** Gives the inputs from the branch on to a session that runs for real. */
async function takeAnew(
  sessionId: string,
  scratch: LoadedConfig,
  turns: readonly JournaledTurn[],
  { turnTimeoutMs = TURN_TIMEOUT_MS, signal, plugins, branchPlugins = plugins, ...options }: BranchOptions,
  open: OpenScratch,
): Promise<SessionMeta> {
  const { logger, clock = systemClock, asyncContext } = options
  const given = defined({ plugins: branchPlugins, logger, clock, asyncContext })
  const engine = await open(scratch, { ...given, recallSessionId: sessionId, useConfigSnapshot: false }, false)
  await engine.boot()
  try {
    for (const { input } of turns) {
      const { content, files } = input.payload as EventMap['io.input']
      const late = (): NexusError =>
        new NexusError('UNAVAILABLE', `input ${input.seq} took longer than ${turnTimeoutMs} ms in the branch`, {
          op: 'engine.replay',
          key: input.event_id,
        })
      await within(engine.submitInput(content, files), { clock, deadlineMs: turnTimeoutMs, signal, late })
    }
    return engine.session.meta()
  } finally {
    await engine.stop()
  }
}

function branchedTurn(turn: number, before: JournaledTurn, after: JournaledTurn | undefined): BranchedTurn {
  const { content } = before.input.payload as EventMap['io.input']
  const { removed, added } = changes(before.events, after?.events ?? [])
  return {
    turn,
    input: content,
    same: removed.length === 0 && added.length === 0,
    removed: removed.map(asReplayed),
    added: added.map(asReplayed),
  }
}

/** What one list has and the other has not, by their longest common part. */
function changes(
  before: JournaledTurn['events'],
  after: JournaledTurn['events'],
): { removed: JournaledTurn['events']; added: JournaledTurn['events'] } {
  // Row by row from the end: how much two rests have in common.
  const common: Uint32Array[] = Array.from({ length: before.length + 1 }, () => new Uint32Array(after.length + 1))
  const at = (row: number, column: number): number => common[row]?.[column] ?? 0
  for (let i = before.length - 1; i >= 0; i--) {
    for (let j = after.length - 1; j >= 0; j--) {
      const most = sameEvent(before[i], after[j]) ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1))
      ;(common[i] as Uint32Array)[j] = most
    }
  }
  const [removed, added]: [JournaledTurn['events'], JournaledTurn['events']] = [[], []]
  let [i, j] = [0, 0]
  while (i < before.length || j < after.length) {
    const [left, right] = [before[i], after[j]]
    if (left !== undefined && right !== undefined && sameEvent(left, right)) {
      i++
      j++
    } else if (left !== undefined && (right === undefined || at(i + 1, j) >= at(i, j + 1))) {
      removed.push(left)
      i++
    } else if (right !== undefined) {
      added.push(right)
      j++
    }
  }
  return { removed, added }
}

function totalsOf(meta: SessionMeta | undefined): SessionTotals {
  return { turns: meta?.turnCount ?? 0, tokens: meta?.tokensUsed ?? 0, costUsd: meta?.costUsd ?? 0 }
}

async function* each<T>(values: readonly T[]): AsyncGenerator<T> {
  yield* values
}

/** The same options without those that are undefined. */
function defined<T extends object>(options: T): { [Key in keyof T]?: Exclude<T[Key], undefined> } {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as T
}
