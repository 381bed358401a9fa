import { join } from 'node:path'
import { NexusError } from '@nexus/errors'
import { systemClock, within } from '@nexus/host'
import { type Coordinator, type JournalEnvelope, TURN_TIMEOUT_MS } from '@nexus/journal'
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
  const answers = new JournaledAnswers(coordinator)
  const inputs = new GivenInputs(coordinator)
  const before: Before = { answers, inputs, lastInput: undefined, branched: [] }
  let turns = 0
  for await (const turn of turnEvents(journalDir, signal)) {
    if (turns >= fromTurn - 1) before.branched.push(turn.input)
    else {
      answers.learn(turn)
      inputs.learn(turn)
      if (turn.kind === 'turn') before.lastInput = turn.input.event_id
    }
    if (turn.kind === 'turn') turns++
  }
  refuseUnknownTurn(fromTurn, before.branched.length, turns)
  const scratch = await Scratch.make(sessionDir, sessionId, keepIn)
  try {
    await takeAsItWas(sessionId, scratch.config(loaded), before, coordinator, options, open)
    const meta = await takeAnew(sessionId, scratch.config(other), before.branched, options, open)
    // One turn at a time: only what differs is kept.
    const [one, again] = [turnEvents(journalDir, signal), turnEvents(scratch.journalDir, signal)]
    const { firstDifference } = await compareTurns(take(one, fromTurn - 1), take(again, fromTurn - 1))
    const branched: BranchedTurn[] = []
    for (const [at, input] of before.branched.entries()) {
      branched.push(branchedTurn(fromTurn + at, input, await nextOf(one), await nextOf(again)))
    }
    await Promise.all([one.return(undefined), again.return(undefined)])
    return {
      fromTurn,
      ...(firstDifference === undefined ? {} : { firstDifference }),
      turns: branched,
      files: await changedFiles(sessionDir, scratch.sessionDir),
      totals: { before: totalsOf(await readSessionMeta(sessionDir)), after: totalsOf(meta) },
      notRebuilt: [...answers.told].toSorted(),
      ...(keepIn === undefined ? {} : { dir: scratch.sessionDir }),
    }
  } finally {
    await scratch.remove()
  }
}

/** What the journal says of a session up to a branch, and what was given to it from there on. */
interface Before {
  readonly answers: JournaledAnswers
  readonly inputs: GivenInputs
  /** Event id of the input of the last turn before the branch; undefined when the branch begins with the first turn. */
  lastInput: string | undefined
  readonly branched: JournalEnvelope[]
}

function refuseUnknownTurn(fromTurn: number, branched: number, turns: number): void {
  if (Number.isInteger(fromTurn) && fromTurn >= 1 && branched > 0) return
  throw new NexusError('INVALID_ARGUMENT', `there is no turn ${fromTurn} to branch from: the session has ${turns}`, {
    op: 'engine.replay',
  })
}

/** The next turns up to a number, leaving the rest to whoever reads on; inputs that were refused before them come along. */
async function* take(turns: AsyncIterator<JournaledTurn>, count: number): AsyncGenerator<JournaledTurn> {
  for (let taken = 0; taken < count;) {
    const turn = await nextOf(turns)
    if (turn === undefined) return
    if (turn.kind === 'turn') taken++
    yield turn
  }
}

async function nextOf(turns: AsyncIterator<JournaledTurn>): Promise<JournaledTurn | undefined> {
  const { value, done } = await turns.next()
  return done === true ? undefined : value
}

/** Brings the scratch session to where the branch begins. */
async function takeAsItWas(
  sessionId: string,
  scratch: LoadedConfig,
  { answers, inputs, lastInput }: Before,
  coordinator: Coordinator,
  { turnTimeoutMs, signal, plugins, logger, clock, asyncContext, useConfigSnapshot }: BranchOptions,
  open: OpenScratch,
): Promise<void> {
  const given = defined({ plugins, logger, clock, asyncContext, useConfigSnapshot })
  const engine = await open(scratch, { ...given, recallSessionId: sessionId }, 'rebuilding')
  answers.answerOn(engine.bus, true)
  await engine.boot()
  try {
    const count = coordinator.completedInputs.findIndex(({ event_id: id }) => id === lastInput) + 1
    await coordinator.run(inputs.through(engine.bus, count), {
      inputs: count,
      ...defined({ turnTimeoutMs, signal, clock }),
    })
  } finally {
    await engine.stop()
  }
}

/** Gives the inputs from the branch on to a session that runs for real. */
async function takeAnew(
  sessionId: string,
  scratch: LoadedConfig,
  inputs: readonly JournalEnvelope[],
  { turnTimeoutMs = TURN_TIMEOUT_MS, signal, plugins, branchPlugins = plugins, ...options }: BranchOptions,
  open: OpenScratch,
): Promise<SessionMeta> {
  const { logger, clock = systemClock, asyncContext } = options
  const given = defined({ plugins: branchPlugins, logger, clock, asyncContext })
  const engine = await open(scratch, { ...given, recallSessionId: sessionId, useConfigSnapshot: false }, false)
  await engine.boot()
  try {
    for (const input of inputs) {
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

function branchedTurn(
  turn: number,
  input: JournalEnvelope,
  before: JournaledTurn | undefined,
  after: JournaledTurn | undefined,
): BranchedTurn {
  const { content } = input.payload as EventMap['io.input']
  const { removed, added } = changes(before?.events ?? [], after?.events ?? [])
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

/** The same options without those that are undefined. */
function defined<T extends object>(options: T): { [Key in keyof T]?: Exclude<T[Key], undefined> } {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as T
}
