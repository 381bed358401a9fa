import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { isNexusError, NexusError } from '@nexus/errors'
import { JournalWriter, readOpenTurn } from '@nexus/journal'
import { openStorageManager, type StorageManager } from '@nexus/storage'
import type { EventBus } from '../bus/event-bus.ts'
import type { EngineConfig } from '../config/engine-config.ts'
import type { LoadedConfig } from '../config/load.ts'
import { CONFIG_SNAPSHOT_PATH, refuseReplacedDirectories } from '@nexus/durability/names'
import { type SessionDurability, sweepStaging } from '@nexus/durability'
import type { ResolvedOptions } from '../engine-options.ts'
import { JournalRecorder, subscribeJournalGate } from '../event-recorder.ts'
import { PluginHost } from '../plugins/plugin-host.ts'
import { atomicWriteFile, type Fence, readLockState, type SessionLockOptions } from '@nexus/host'
import { subscribeMeta } from '../session/meta-events.ts'
import { ENGINE_VERSION } from '../version.ts'
import { subscribeTiming } from '../session/timing.ts'
import { openWorkspace, type SessionWorkspace } from '../session/workspace.ts'
import { joinDurability, tellOn } from './join-durability.ts'
import { openDurability } from './open-durability.ts'
import { answerInterruptedCalls } from './partial-turn.ts'
import { pluginDirectories } from './plugin-directories.ts'
import { placeTree, type PlacedTree } from './place-tree.ts'
import { configOfTree } from './resume-config.ts'
import type { RunningSession } from './running-session.ts'
import { Teardown } from './teardown.ts'
import { Ticks } from './ticks.ts'

/** What the engine knows when it boots. */
export interface BootRequest {
  sessionId: string
  /** An existing session is asked for. */
  resume: boolean
  loaded: LoadedConfig
  options: ResolvedOptions
  bus: EventBus
  /** The run's right to write; it falls when the lock is lost. */
  fence: Fence
  /** Called when the session can take input, before `core.ready` says so. */
  onUp: (session: RunningSession) => void
}

/**
 * Brings a session up: store, shared roots, tree and lock, owner marker, configuration, journal, plugins, in this order.
 * Events begin when the journal runs. A boot that fails gives back everything it took.
 *
 * @see docs/architecture.md
 */
export async function bootSession(request: BootRequest): Promise<RunningSession> {
  const teardown = new Teardown(request.options.logger)
  try {
    const session = await boot(request, teardown)
    teardown.release()
    return session
  } catch (error) {
    await teardown.unwind()
    throw error
  }
}

async function boot(request: BootRequest, teardown: Teardown): Promise<RunningSession> {
  const { sessionId, options, bus } = request
  const given = request.loaded.config
  const opened = await openDurability(sessionId, given, options, request.fence)
  const durability = opened?.durability
  if (durability !== undefined) teardown.defer('object store', () => durability.finish({ clean: false }))
  await durability?.shared.hydrate()

  await sweepAbandonedStaging(given.core.sessions.root, options)
  const tree = await placeTree({
    sessionId,
    durability,
    sessionsRoot: given.core.sessions.root,
    resume: request.resume,
    profile: profileOf(request),
    fsync: given.journal.fsync !== 'none',
    lock: lockOptions(request),
    onLock: (lock) => teardown.defer('session lock', () => lock.release()),
  })
  // A session that was never up leaves nothing: its configuration would be in force at the next try, with what was wrong in it.
  if (!tree.resumed) teardown.defer('new session', () => rm(tree.dir, { recursive: true, force: true }))
  refuseReplacedDirectories(tree.dir)
  await durability?.claimOwner()

  const loaded = configInForce(request, tree)
  const { config } = loaded
  const workspace = await openWorkspace({
    id: sessionId,
    dir: tree.dir,
    fsync: config.journal.fsync,
    profile: profileOf(request),
    logger: options.logger,
    clock: options.clock,
    failpoint: options.failpoint,
    ...(durability === undefined ? {} : { blobHooks: durability.blobHooks }),
  })
  await atomicWriteFile(join(tree.dir, CONFIG_SNAPSHOT_PATH), loaded.text)
  const storage = openStorage(config, workspace, durability, request)
  teardown.defer('storage', () => storage.dispose())
  const openTurn = tree.resumed ? await readOpenTurn(join(tree.dir, 'journal')) : undefined
  const journal = await openJournal(config, workspace, durability, request)
  teardown.defer('journal', () => journal.close())

  bus.setRecorder(new JournalRecorder(journal, config.journal, () => workspace.sync()))
  teardown.defer('event bus', () => bus.setRecorder(undefined))
  const background = new AbortController()
  teardown.defer('background work', () => background.abort())
  subscribeEngine({ bus, journal, workspace, background: background.signal, options })
  if (durability !== undefined) {
    durability.attach({ tell: tellOn(bus), journal, storage })
    // Only here: a session without a store has no hook, and its turns take no other path.
    teardown.defer('object store on the bus', joinDurability(bus, durability))
  }

  let plugins: PluginHost
  try {
    plugins = new PluginHost({
      plugins: options.plugins,
      loaded,
      bus,
      logger: options.logger,
      clock: options.clock,
      instanceId: options.instanceId,
      engineInfo: {
        version: ENGINE_VERSION,
        sessionId,
        agentId: config.core.agentId,
        profile: options.profile ?? loaded.profile,
      },
      session: workspace,
      journal,
      storage: (scope, pluginId) => storage.open(scope, pluginId),
      directories: pluginDirectories(config, workspace),
    })
    const up = plugins
    teardown.defer('plugins', () => up.shutdown({ timeoutMs: config.engine.shutdown.drainTimeoutMs }))
    await announceBoot(request, loaded, workspace, plugins, durability)
  } catch (error) {
    throw loaded === request.loaded ? error : underOwnConfig(error, tree.dir)
  }
  if (openTurn !== undefined) await answerInterruptedCalls(openTurn, bus)
  const ticks = new Ticks(bus, options.clock, config.core.tickIntervalMs)
  ticks.start()
  teardown.defer('ticks', () => ticks.stop())
  const session: RunningSession = {
    ...tree,
    id: sessionId,
    loaded,
    workspace,
    storage,
    journal,
    openTurn,
    plugins,
    durability,
    store: opened?.store,
    ticks,
    background,
  }
  request.onUp(session)
  await bus.emit('core.ready', {})
  return session
}

function profileOf({ loaded, options }: BootRequest): {
  profile: string
  labels: Readonly<Record<string, string>>
} {
  return {
    profile: options.profile ?? loaded.profile,
    labels: options.labels,
  }
}

function lockOptions({ sessionId, options, fence }: BootRequest): SessionLockOptions {
  const { transport, clock, logger, waitForLock: waitMs } = options
  const onLost = (): void => {
    const message =
      `another process took the lock of session ${sessionId}, since this one stood still for too long, or the lock is gone; ` +
      'this run has ended. Stop it: what it wrote until then is kept'
    fence.fall(new NexusError('LOCKED', message, { op: 'session.lock', key: sessionId }))
  }
  return { transport, clock, logger, waitMs, onLost }
}

function configInForce({ loaded, options }: BootRequest, tree: PlacedTree): LoadedConfig {
  if (!tree.resumed || !options.useConfigSnapshot) return loaded
  const own = configOfTree(tree.dir, loaded)
  if (own.text !== loaded.text) {
    options.logger.info(
      { path: join(tree.dir, CONFIG_SNAPSHOT_PATH) },
      "the session goes on under its own configuration, which isn't the given one: useConfigSnapshot: false changes that",
    )
  }
  for (const warning of own.warnings) options.logger.warn({}, warning)
  return own
}

function openStorage(
  config: EngineConfig,
  workspace: SessionWorkspace,
  durability: SessionDurability | undefined,
  { options: { logger, failpoint } }: BootRequest,
): StorageManager {
  const { root, ...settings } = config.core.storage
  return openStorageManager({
    sessionDir: workspace.dir,
    storageRoot: root,
    ...settings,
    logger,
    failpoint: (name) => void failpoint(name),
    ...(config.core.agentId === '' ? {} : { agentId: config.core.agentId }),
    ...(durability === undefined
      ? {}
      : { beforeOpen: (scope, pluginId, path) => durability.shared.guard(scope, pluginId, path) }),
  })
}

async function openJournal(
  config: EngineConfig,
  workspace: SessionWorkspace,
  durability: SessionDurability | undefined,
  { bus, options: { logger, clock, failpoint } }: BootRequest,
): Promise<JournalWriter> {
  const committedSegment = durability?.committedSegment
  return await JournalWriter.open(join(workspace.dir, 'journal'), {
    fsync: config.journal.fsync,
    rotateBytes: config.journal.rotateBytes,
    sessionId: workspace.id,
    logger,
    clock,
    // The journal works synchronously, so it can't wait for a failpoint.
    failpoint: (name) => void failpoint(name),
    // It may fail within the dispatch of an event: told when that is over.
    onError: ({ message: error }) =>
      queueMicrotask(
        () => void bus.emit('core.error', { source: 'core.journal', error, fatal: false, retryable: true }),
      ),
    ...(committedSegment === undefined ? {} : { committedSegment }),
  })
}

/** A staging directory gets its lock within milliseconds of being made; one this young is given the benefit of the doubt. */
const YOUNG_STAGING_MS = 10_000

/** Removes what killed processes left. It is housekeeping: a failure is logged and the boot goes on. */
async function sweepAbandonedStaging(sessionsRoot: string, { clock, logger }: ResolvedOptions): Promise<void> {
  try {
    await sweepStaging(sessionsRoot, ({ path, kind, sessionId, changedAtMs }) => {
      if (clock.now() - changedAtMs < YOUNG_STAGING_MS) return true
      return readLockState(kind === 'hydrating' ? path : join(sessionsRoot, sessionId), { clock }) === 'live'
    })
  } catch (error) {
    logger.warn({ err: error }, 'what an earlier process left beside the sessions could not be removed')
  }
}

/** A plugin that fails under what the session was begun with may be fine under what the program gave: says which it was. */
function underOwnConfig(error: unknown, dir: string): unknown {
  if (!isNexusError(error)) return error
  const { code, op, key, retryable } = error
  const path = join(dir, CONFIG_SNAPSHOT_PATH)
  const message = `${error.message}\nThe session runs under its own configuration, ${path}; useConfigSnapshot: false runs it under the given one.`
  const about = { ...(op === undefined ? {} : { op }), ...(key === undefined ? {} : { key }) }
  return new NexusError(code, message, { ...about, retryable, cause: error })
}

interface EngineSubscriptions {
  bus: EventBus
  journal: JournalWriter
  workspace: SessionWorkspace
  background: AbortSignal
  options: ResolvedOptions
}

/** What the engine itself listens to, taken away again when `background` fires. */
function subscribeEngine({ bus, journal, workspace, background, options }: EngineSubscriptions): void {
  const unsubscribe = [
    subscribeJournalGate(bus, journal),
    subscribeMeta(bus, workspace),
    subscribeTiming(bus, workspace, options.clock),
  ]
  background.addEventListener('abort', () => unsubscribe.forEach((each) => each()), { once: true })
}

/** The journal runs from here on: first what boot did silently, then the plugins, then what boot found out. */
async function announceBoot(
  { bus, options }: BootRequest,
  loaded: LoadedConfig,
  workspace: SessionWorkspace,
  plugins: PluginHost,
  durability: SessionDurability | undefined,
): Promise<void> {
  workspace.attachBus(bus)
  await bus.emit('core.boot', {
    profile: options.profile ?? loaded.profile,
    ...(loaded.path === undefined ? {} : { config_path: loaded.path }),
  })
  await plugins.init()
  await workspace.saveMeta({ ...workspace.meta(), plugins: plugins.pluginIds })
  await durability?.raiseDeferred()
  await plugins.ready()
  for (const warning of bus.sharedVetoPriorities()) options.logger.warn({}, warning)
}
