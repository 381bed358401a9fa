import { NexusError } from '@nexus/errors'
import type { StorageManager } from '@nexus/storage'
import { EventBus, type SessionBus } from './bus/event-bus.ts'
import { Deadline, Fence } from '@nexus/host'
import type { ConfigInput } from './config/engine-config.ts'
import { configFromObject, loadConfigFile, parseConfig, type LoadedConfig } from './config/load.ts'
import type * as runSession from './run-session.ts'
import { generateSessionId, validateSessionId } from '@nexus/durability/names'
import type { CommitOptions, SnapshotResult } from '@nexus/durability'
import { resolveOptions, type EngineOptions, type ResolvedOptions, type StopOptions } from './engine-options.ts'
import { InputLine, type InputOutcome } from './lifecycle/input-line.ts'
import type { RunningSession } from './lifecycle/running-session.ts'
import { watchTermination } from './lifecycle/signals.ts'
import { createPinoLogger } from './pino-logger.ts'
import type { Replaying } from './plugins/plugin-bus.ts'
import type { SessionJournal } from './plugins/plugin-views.ts'
import type { SessionWorkspace } from './session/workspace.ts'
import type { BranchOptions, BranchReport } from './replay/branch-report.ts'
import type { ReplayOptions, ReplayReport } from './replay/replay-report.ts'
import type { OpenScratch } from './replay/scratch.ts'
import { engineStatus, type EngineStatus, type Phase } from './lifecycle/status.ts'

/**
 * One run of one session: boot it, give it inputs, commit, stop or abandon it.
 *
 * @see docs/guides/embedding.md
 */
export class Engine {
  /** The session's id, known before the boot. */
  readonly sessionId: string
  readonly #bus: EventBus
  readonly #resume: boolean
  readonly #loaded: LoadedConfig
  readonly #options: ResolvedOptions
  #phase: Phase = 'new'
  #session: RunningSession | undefined
  #booting: Promise<void> | undefined
  #stopping: Promise<void> | undefined
  #abandoning: Promise<void> | undefined
  readonly #inputs: InputLine
  #hasNotedOpenTurn = false
  /** An end was asked for and did not wait any longer for the boot. */
  #isGivenUp = false
  /** The run's right to write: it falls when the run ends, and at once when another host or process has the session. */
  readonly #fence = new Fence()
  /** An end was asked for, or the session was lost. */
  readonly #over: Promise<void>
  #endBegins: () => void = () => undefined

  private constructor(loaded: LoadedConfig, given: EngineOptions, options: ResolvedOptions) {
    const { recallSessionId } = given
    const { idFormat } = loaded.config.core.sessions
    this.#resume = recallSessionId !== undefined
    this.sessionId = this.#resume
      ? validateSessionId(recallSessionId)
      : generateSessionId(idFormat, { clock: options.clock })
    this.#loaded = loaded
    this.#options = options
    this.#over = new Promise((resolve) => {
      this.#endBegins = resolve
    })
    this.#bus = new EventBus({
      sessionId: this.sessionId,
      agentId: loaded.config.core.agentId,
      clock: options.clock,
      logger: options.logger,
      asyncContext: given.asyncContext ?? false,
    })
    this.#inputs = new InputLine(this.#bus, () => {
      const lost = this.#refusal()
      if (lost === undefined) void this.#running
      return lost
    })
  }

  /** Reads the configuration from a YAML file. Rejects as {@link Engine.fromYaml}, and when the file can't be read. */
  static async fromFile(path: string, options: EngineOptions = {}): Promise<Engine> {
    return await Engine.#create(await loadConfigFile(path, { backendGiven: options.backend !== undefined }), options)
  }

  /** Reads the configuration from YAML. Rejects with `INVALID_ARGUMENT`, every problem of it in one message. */
  static async fromYaml(text: string | Uint8Array, options: EngineOptions = {}): Promise<Engine> {
    return await Engine.#create(await parseConfig(text, { backendGiven: options.backend !== undefined }), options)
  }

  /** Takes the configuration as an object with the keys of the YAML file. Rejects as {@link Engine.fromYaml}. */
  static async fromConfig(config: ConfigInput = {}, options: EngineOptions = {}): Promise<Engine> {
    return await Engine.#create(
      await configFromObject(config, { backendGiven: options.backend !== undefined }),
      options,
    )
  }

  /**
   * Takes the completed turns of a session once more, in a scratch session: what models, tools and people said then is said
   * again, and nothing outside of it is asked. The session itself is only read.
   *
   * With `fromTurn` it branches: the turns before are taken as they were, and from that turn on the inputs are given to a
   * session that runs for real, under another configuration if one is given; the report says what became different.
   *
   * @param config as {@link Engine.fromConfig} takes it, or the path of a file
   * @throws `NOT_FOUND` when the session isn't on this machine, `UNAVAILABLE` when a turn takes too long, `INVALID_ARGUMENT` for
   *   a turn that the session hasn't, the signal's reason
   * @see docs/guides/replay.md
   */
  static async replay(
    sessionId: string,
    config: ConfigInput | string | undefined,
    options: BranchOptions,
  ): Promise<BranchReport>
  static async replay(sessionId: string, config?: ConfigInput | string, options?: ReplayOptions): Promise<ReplayReport>
  static async replay(
    sessionId: string,
    config: ConfigInput | string = {},
    options: ReplayOptions | BranchOptions = {},
  ): Promise<ReplayReport | BranchReport> {
    const id = validateSessionId(sessionId)
    const loaded = await loadForReplay(config)
    const open: OpenScratch = (...scratch) => Engine.#create(...scratch)
    if ('fromTurn' in options) {
      const { branchSession } = await import('./replay/branch-session.ts')
      return await branchSession(id, loaded, await loadForReplay(options.config ?? config), options, open)
    }
    const { replaySession } = await import('./replay/replay-session.ts')
    return await replaySession(id, loaded, options, open)
  }

  static async #create(loaded: LoadedConfig, options: EngineOptions, replaying: Replaying = false): Promise<Engine> {
    const logger = options.logger ?? (await createPinoLogger(loaded.config.core.logLevel))
    for (const warning of loaded.warnings) logger.warn({ path: loaded.path }, warning)
    return new Engine(loaded, options, resolveOptions(options, logger, replaying))
  }

  /** Subscribe before `boot()` to miss nothing; events begin when the journal runs. */
  get bus(): SessionBus {
    return this.#bus
  }

  /** The session's files. */
  get session(): SessionWorkspace {
    return this.#running.workspace
  }

  /** The databases of this run: session, agent and app scope. */
  get storage(): StorageManager {
    return this.#running.storage
  }

  /** The session's journal. Events get there by way of the bus; this is for projections, barriers and its position. */
  get journal(): SessionJournal {
    return this.#running.journal
  }

  /**
   * Creates the session, or resumes the one of `recallSessionId`. When it rejects, everything it took is released and the
   * engine can't be used again.
   *
   * @throws SessionLockedError (`LOCKED`, retryable) when another process or thread has it open for longer than `waitForLock`, StaleLocalTreeError, `CORRUPT` for a damaged
   *   commit, the store's error when it can't be asked and there is no local copy
   */
  async boot(): Promise<void> {
    if (this.#phase !== 'new') {
      throw new NexusError('PRECONDITION', `this engine is ${this.#phase}; make a new one for another run`, {
        op: 'engine.boot',
        key: this.sessionId,
      })
    }
    this.#phase = 'booting'
    this.#booting = this.#boot()
    await this.#booting
  }

  async #boot(): Promise<void> {
    const run = await import('./run-session.ts')
    let session: RunningSession
    try {
      session = await run.bootSession({
        sessionId: this.sessionId,
        resume: this.#resume,
        loaded: this.#loaded,
        options: this.#options,
        bus: this.#bus,
        fence: this.#fence,
        onUp: (up) => this.#begin(up, run),
      })
    } catch (error) {
      if (this.#isGivenUp) throw this.#stoppedWhileBooting(error)
      this.#session = undefined
      this.#phase = 'failed'
      this.#bus.close()
      throw error
    }
    if (this.#isGivenUp) {
      const ending = { session, bus: this.#bus, fence: this.#fence, options: this.#options }
      await run.shutdownSession({ ...ending, reason: 'stop', clean: false })
      throw this.#stoppedWhileBooting()
    }
  }

  /** From here on input is taken, which `core.ready` then says; what a killed run left unfinished is first in the queue. */
  #begin(session: RunningSession, { detachSession, refirePartialTurn, startRetention }: typeof runSession): void {
    if (this.#isGivenUp) return
    this.#fence.check()
    this.#fence.signal.addEventListener('abort', () => this.#fenceFell(session, detachSession), { once: true })
    this.#session = session
    this.#phase = 'running'
    startRetention(session, this.#options)
    const { openTurn, loaded } = session
    if (openTurn?.partialInput !== undefined && loaded.config.core.sessions.restart !== 'discard') {
      void this.#inputs.inTurn(() => refirePartialTurn(openTurn, this.#bus, this.#options.logger))
    }
  }

  /**
   * Another host or process has the session: nothing of it is written any more from this moment on. What is left to tell still
   * goes out, then the bus takes no more events.
   */
  #fenceFell(session: RunningSession, detachSession: typeof runSession.detachSession): void {
    const { reason, isLost } = this.#fence
    if (!isLost || reason === undefined || this.#stopping !== undefined) return
    this.#phase = 'lost'
    detachSession(session, this.#bus)
    const { durability, journal, storage } = session
    storage.fence(reason)
    void journal.abandon()
    const told =
      durability?.lastWords() ??
      this.#bus.emit('core.error', { source: 'core.session', error: reason.message, fatal: true, retryable: false })
    void told.finally(() => this.#bus.close())
    this.#endBegins()
  }

  #stoppedWhileBooting(cause?: unknown): NexusError {
    const message = `session ${this.sessionId} was stopped while it booted`
    return new NexusError('ABORTED', message, { op: 'engine.boot', key: this.sessionId, cause })
  }

  /**
   * Boots where that hasn't happened, serves until SIGINT or SIGTERM, and stops within `engine.shutdown.drain_timeout`. A
   * second signal exits at once. Also ends when {@link stop} or {@link abandon} is called, and when the session is lost; in no
   * case does anything of it keep the process alive afterwards.
   *
   * @throws what {@link boot} and {@link stop} throw; `FENCED` or `LOCKED` when another host or process took the session
   */
  async run(): Promise<void> {
    const { terminated, release } = watchTermination()
    try {
      const booted = this.#phase === 'new' ? this.boot() : Promise.resolve()
      // One that is ended while it boots rejects, and the end says why.
      booted.catch(() => undefined)
      await Promise.race([booted, terminated])
      const signal = await Promise.race([terminated, this.#over])
      await this.stop(signal ?? 'run')
    } finally {
      release()
    }
    if (this.#fence.isLost) this.#fence.check()
  }

  /**
   * Offers an input: first to the gates (`before:io.input`), then to the agent (`io.input`). Resolves when its handlers
   * have finished, and tells how many failed.
   *
   * One input at a time: another one waits, gates included, until the handlers of the one before have finished, unless an
   * agent that is busy refuses it at once (`before:io.wait`). So a handler of an input may submit the next one but must not
   * wait for it: it would wait for itself.
   */
  async submitInput(content: string, files: readonly unknown[] = []): Promise<InputOutcome> {
    const lost = this.#refusal()
    if (lost !== undefined) return lost
    const payload = { content, session_id: this.#running.id, ...(files.length === 0 ? {} : { files }) }
    const outcome = await this.#inputs.submit(payload)
    if (outcome.accepted) this.#noteOpenTurn()
    return outcome
  }

  /** A session that another host or process has takes no input, whatever the failure policy. */
  #refusal(): InputOutcome | undefined {
    const { isLost, reason } = this.#fence
    return isLost && reason !== undefined ? { accepted: false, reason: reason.message } : undefined
  }

  /** An agent may go on in the background; one that never ends a turn, or misspells its end, is never stored before the stop. */
  #noteOpenTurn(): void {
    if (this.#hasNotedOpenTurn || this.#session?.durability?.withinTurn !== true) return
    this.#hasNotedOpenTurn = true
    this.#options.logger.info(
      { session_id: this.sessionId },
      'the handlers of an input are done and no turn has ended: it is stored at the next agent.turn.end, or at the stop',
    )
  }

  /**
   * Stores the session as it is now. Resolves when that is durable, rejects when it isn't, under both failure policies;
   * `UNSUPPORTED` without an object store. A caller that stops waiting, by `signal` or `timeoutMs`, doesn't end the commit.
   */
  async commit(options: string | CommitOptions = {}): Promise<SnapshotResult> {
    if (this.#fence.isLost) this.#fence.check()
    const { durability, id } = this.#running
    if (durability === undefined) {
      throw new NexusError(
        'UNSUPPORTED',
        `session ${id} has no object store to commit to: name one in core.object_store`,
        { op: 'engine.commit', key: id },
      )
    }
    return await durability.snapshot('request', typeof options === 'string' ? { reason: options } : options)
  }

  /** What the run is doing and how its durability stands. Never throws, in any phase. */
  status(): EngineStatus {
    return engineStatus(this.sessionId, this.#phase, this.#session, this.#bus, this.#fence)
  }

  /**
   * Ends the session: final snapshot, everything released. Calling it again gives the same result; after `abandon()` it
   * only gives back what is local, and it is safe on an engine that never booted.
   *
   * @throws under `strict`, when something was lost: the last snapshot or flush failed, or the journal, a database or the
   *   metadata could not be written, or another host has the session
   */
  stop(reason = 'stop', { onlyIfNew = false }: StopOptions = {}): Promise<void> {
    this.#endBegins()
    this.#stopping ??= this.#stop(reason, onlyIfNew)
    return this.#stopping
  }

  async #stop(reason: string, onlyIfNew: boolean): Promise<void> {
    await this.#settleBoot()
    await this.#abandoning
    const session = this.#session
    const clean = this.#phase === 'running'
    this.#phase = 'stopping'
    const { shutdownSession } = await import('./run-session.ts')
    try {
      const ending = { bus: this.#bus, fence: this.#fence, options: this.#options, reason, clean, onlyIfNew }
      if (session === undefined) this.#bus.close()
      else await shutdownSession({ ...ending, session })
      if (this.#fence.isLost && session?.loaded.config.core.objectStore?.failurePolicy === 'strict') this.#fence.check()
    } finally {
      this.#phase = 'stopped'
    }
  }

  /**
   * Drops the session as a killed process would: workers, timers and subscriptions end, nothing more is written, here or
   * remotely, and the owner marker stays. What is local is given back, the lock too. Idempotent; safe in any phase.
   */
  abandon(): Promise<void> {
    this.#endBegins()
    this.#abandoning ??= this.#abandon()
    return this.#abandoning
  }

  async #abandon(): Promise<void> {
    await this.#settleBoot()
    const session = this.#session
    if (session === undefined || this.#stopping !== undefined) return
    this.#phase = 'abandoned'
    const { abandonSession } = await import('./run-session.ts')
    await abandonSession(session, this.#bus, this.#fence)
  }

  /**
   * Waits for a boot under way, at most `engine.shutdown.drain_timeout`: a plugin may never get done. Such a boot gives back
   * what it took when it ends. Its failure is the caller's of `boot()`.
   */
  async #settleBoot(): Promise<void> {
    if (this.#booting === undefined || this.#phase === 'running') return
    const { clock, logger } = this.#options
    const deadline = new Deadline('engine.boot', this.#loaded.config.engine.shutdown.drainTimeoutMs, clock)
    try {
      await deadline.race(this.#booting)
    } catch (error) {
      this.#isGivenUp = this.#phase === 'booting'
      logger.debug({ err: error }, 'the boot failed, or took too long, before the end was asked for')
    } finally {
      deadline.clear()
    }
  }

  get #running(): RunningSession {
    if (this.#session === undefined || (this.#phase !== 'running' && this.#phase !== 'lost')) {
      throw new NexusError(
        'PRECONDITION',
        `the session is ${this.#phase}, not running: boot() comes first, stop() last`,
        { op: 'engine', key: this.sessionId },
      )
    }
    return this.#session
  }
}

/** No store is opened for a replay, so its driver may be missing. */
async function loadForReplay(given: ConfigInput | string): Promise<LoadedConfig> {
  const options = { backendGiven: true }
  return await (typeof given === 'string' ? loadConfigFile(given, options) : configFromObject(given, options))
}
