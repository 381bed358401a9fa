import { join } from 'node:path'
import type { LoadedConfig } from '../config/load.ts'
import { compareTurns } from './compare-turns.ts'
import { GivenInputs } from './given-inputs.ts'
import { JournaledAnswers } from './journaled-answers.ts'
import type { ReplayOptions, ReplayReport } from './replay-report.ts'
import { openCoordinator, type OpenScratch, Scratch } from './scratch.ts'
import { turnEvents } from './turn-events.ts'

/** See `Engine.replay`. */
export async function replaySession(
  sessionId: string,
  loaded: LoadedConfig,
  { turnTimeoutMs, signal, ...given }: ReplayOptions,
  open: OpenScratch,
): Promise<ReplayReport> {
  const sessionDir = join(loaded.config.core.sessions.root, sessionId)
  const journalDir = join(sessionDir, 'journal')
  const coordinator = await openCoordinator(journalDir, sessionId, signal)
  const answers = new JournaledAnswers(coordinator)
  const inputs = new GivenInputs(coordinator)
  for await (const turn of turnEvents(journalDir, signal)) {
    answers.learn(turn)
    inputs.learn(turn)
  }
  const scratch = await Scratch.make(sessionDir, sessionId)
  try {
    const engine = await open(scratch.config(loaded), { ...given, recallSessionId: sessionId }, 'answers')
    answers.answerOn(engine.bus)
    await engine.boot()
    try {
      await coordinator.run(inputs.through(engine.bus), {
        ...(turnTimeoutMs === undefined ? {} : { turnTimeoutMs }),
        ...(signal === undefined ? {} : { signal }),
        ...(given.clock === undefined ? {} : { clock: given.clock }),
      })
    } finally {
      await engine.stop()
    }
    return await compareTurns(turnEvents(journalDir, signal), turnEvents(scratch.journalDir, signal))
  } finally {
    await scratch.remove()
  }
}
