import { cp, mkdir, mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { CONFIG_SNAPSHOT_PATH, METADATA_DIR } from '@nexus/durability/names'
import { fromSystemError, isNexusError, NexusError } from '@nexus/errors'
import { Coordinator } from '@nexus/journal'
import type { EventEmitting } from '../bus/event.ts'
import type { EventSubscribing } from '../bus/event-bus.ts'
import type { LoadedConfig } from '../config/load.ts'
import type { EngineOptions } from '../engine-options.ts'
import type { Replaying } from '../plugins/plugin-bus.ts'
import type { SessionMeta } from '../session/meta.ts'

/** The engine of a scratch session. */
export interface ScratchEngine {
  readonly bus: EventEmitting & EventSubscribing
  readonly session: { meta(): SessionMeta }
  boot(): Promise<void>
  submitInput(content: string, files?: readonly unknown[]): Promise<unknown>
  stop(): Promise<void>
  abandon(): Promise<void>
}

/** Makes an engine; in a replay without the plugins' handlers of side effects. */
export type OpenScratch = (
  scratch: LoadedConfig,
  options: EngineOptions,
  replaying: Replaying,
) => Promise<ScratchEngine>

/** Where a session is taken once more: a directory of its own, with the configuration that the session was begun with. */
export class Scratch {
  readonly sessionDir: string
  readonly #root: string
  readonly #kept: boolean

  private constructor(root: string, sessionId: string, kept: boolean) {
    this.#root = root
    this.#kept = kept
    this.sessionDir = join(root, 'sessions', sessionId)
  }

  /** @throws `PRECONDITION` when the directory to keep it in holds something */
  static async make(sessionDir: string, sessionId: string, keepIn?: string): Promise<Scratch> {
    if (keepIn !== undefined) await makeEmpty(keepIn)
    const root = keepIn ?? (await mkdtemp(join(tmpdir(), 'nexus-replay-')))
    const scratch = new Scratch(root, sessionId, keepIn !== undefined)
    await mkdir(join(scratch.sessionDir, METADATA_DIR), { recursive: true, mode: 0o700 })
    await cp(join(sessionDir, CONFIG_SNAPSHOT_PATH), join(scratch.sessionDir, CONFIG_SNAPSHOT_PATH)).catch(
      (error: NodeJS.ErrnoException) => {
        // A session without one runs under the given configuration.
        if (error.code !== 'ENOENT') throw fromSystemError(error, 'engine.replay', sessionDir)
      },
    )
    return scratch
  }

  get journalDir(): string {
    return join(this.sessionDir, 'journal')
  }

  /** A configuration under which everything lies in the scratch directory, and no store hears of it. */
  config(loaded: LoadedConfig): LoadedConfig {
    const { core, journal } = loaded.config
    return {
      ...loaded,
      config: {
        ...loaded.config,
        core: {
          ...core,
          sessions: { ...core.sessions, root: join(this.#root, 'sessions'), retentionMs: 0 },
          storage: { ...core.storage, root: this.#root },
          objectStore: undefined,
        },
        journal: { ...journal, fsync: 'none' },
      },
    }
  }

  async remove(): Promise<void> {
    if (!this.#kept) await rm(this.#root, { recursive: true, force: true })
  }
}

async function makeEmpty(dir: string): Promise<void> {
  await mkdir(dir, { recursive: true, mode: 0o700 })
  if ((await readdir(dir)).length === 0) return
  throw new NexusError('PRECONDITION', `${dir} is not empty: name a directory that holds nothing`, {
    op: 'engine.replay',
    key: dir,
  })
}

/** @throws `NOT_FOUND` when the session isn't on this machine */
export async function openCoordinator(
  dir: string,
  sessionId: string,
  signal: AbortSignal | undefined,
): Promise<Coordinator> {
  try {
    return await Coordinator.open(dir, signal === undefined ? {} : { signal })
  } catch (error) {
    if (!isNexusError(error, 'NOT_FOUND')) throw error
    throw new NexusError(
      'NOT_FOUND',
      `session ${sessionId} is not on this machine: resume it once, so that it is restored`,
      { op: 'engine.replay', key: sessionId, cause: error },
    )
  }
}
