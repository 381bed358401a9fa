import { cp, mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { CONFIG_SNAPSHOT_PATH, METADATA_DIR } from '@nexus/durability/names'
import { isNexusError, NexusError } from '@nexus/errors'
import { Coordinator } from '@nexus/journal'
import type { EventEmitting } from '../bus/event.ts'
import type { EventSubscribing } from '../bus/event-bus.ts'
import type { LoadedConfig } from '../config/load.ts'
import type { EngineOptions } from '../engine-options.ts'
import { compareTurns } from './compare-turns.ts'
import { JournaledAnswers } from './journaled-answers.ts'
import type { ReplayOptions, ReplayReport } from './replay-report.ts'
import { turnEvents } from './turn-events.ts'

/** The engine of the scratch session. */
export interface ScratchEngine {
  readonly bus: EventEmitting & EventSubscribing
  boot(): Promise<void>
  stop(): Promise<void>
}

/** See `Engine.replay`. `open` makes an engine that leaves out the plugins' handlers of side effects. */
export async function replaySession(
  sessionId: string,
  loaded: LoadedConfig,
  { turnTimeoutMs, signal, ...given }: ReplayOptions,
  open: (scratch: LoadedConfig, options: EngineOptions, replaying: true) => Promise<ScratchEngine>,
): Promise<ReplayReport> {
  const sessionDir = join(loaded.config.core.sessions.root, sessionId)
  const journalDir = join(sessionDir, 'journal')
  const coordinator = await openCoordinator(journalDir, sessionId, signal)
  const answers = new JournaledAnswers(coordinator)
  for await (const turn of turnEvents(journalDir, signal)) answers.learn(turn)
  const root = await mkdtemp(join(tmpdir(), 'nexus-replay-'))
  try {
    const scratchDir = join(root, 'sessions', sessionId)
    // The session's own plugins and their blocks are those of the configuration that it was begun with.
    await mkdir(join(scratchDir, METADATA_DIR), { recursive: true, mode: 0o700 })
    await cp(join(sessionDir, CONFIG_SNAPSHOT_PATH), join(scratchDir, CONFIG_SNAPSHOT_PATH))
    const engine = await open(scratchConfig(loaded, root), { ...given, recallSessionId: sessionId }, true)
    answers.answerOn(engine.bus)
    await engine.boot()
    try {
      await coordinator.run(engine.bus, {
        ...(turnTimeoutMs === undefined ? {} : { turnTimeoutMs }),
        ...(signal === undefined ? {} : { signal }),
        ...(given.clock === undefined ? {} : { clock: given.clock }),
      })
    } finally {
      await engine.stop()
    }
    return await compareTurns(turnEvents(journalDir, signal), turnEvents(join(scratchDir, 'journal'), signal))
  } finally {
    await rm(root, { recursive: true, force: true })
  }
}

async function openCoordinator(dir: string, sessionId: string, signal: AbortSignal | undefined): Promise<Coordinator> {
  try {
    return await Coordinator.open(dir, signal === undefined ? {} : { signal })
  } catch (error) {
    if (!isNexusError(error, 'NOT_FOUND')) throw error
    throw new NexusError(
      'NOT_FOUND',
      `session ${sessionId} is not on this machine: resume it once, so that it is restored`,
      {
        op: 'engine.replay',
        key: sessionId,
        cause: error,
      },
    )
  }
}

/** Everything of the replay lies in a directory of its own, and no store hears of it. */
function scratchConfig(loaded: LoadedConfig, root: string): LoadedConfig {
  const { core, journal } = loaded.config
  return {
    ...loaded,
    config: {
      ...loaded.config,
      core: {
        ...core,
        sessions: { ...core.sessions, root: join(root, 'sessions'), retentionMs: 0 },
        storage: { ...core.storage, root },
        objectStore: undefined,
      },
      journal: { ...journal, fsync: 'none' },
    },
  }
}
