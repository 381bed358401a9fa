import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { CONFIG_SNAPSHOT_PATH, refuseReplacedDirectories } from '@nexus/durability/names'
import { atomicWriteFile, type Fence } from '@nexus/host'
import type { EventBus } from '../../bus/event-bus.ts'
import type { LoadedConfig } from '../../config/load.ts'
import type { ResolvedOptions } from '../../engine-options.ts'
import { JournalRecorder, subscribeJournalGate } from '../../event-recorder.ts'
import { subscribeMeta } from '../../session/meta-events.ts'
import { recount } from '../../session/recount.ts'
import { subscribeTiming } from '../../session/timing.ts'
import { subscribeToolResults } from '../../session/tool-results.ts'
import { type BootStep, runSteps } from './step.ts'
import { findDamage } from './find-damage.ts'
import { joinDurability, tellOn } from './join-durability.ts'
import { removeLeftovers } from '../leftovers.ts'
import { openDurability } from './open-durability.ts'
import { lockOptions, openDatabases, openJournal, openPlugins, openSessionFiles, profileOf } from './open-parts.ts'
import { answerInterruptedCalls, openTurnOf } from './partial-turn.ts'
import { placeTree } from './place-tree.ts'
import { configInForce, underOwnConfig } from './resume-config.ts'
import type { RunningSession } from '../running-session.ts'
import { Ticks } from '../ticks.ts'

/** What the engine knows when it boots. */
export interface BootRequest {
  sessionId: string
  /** An existing session is asked for. */
  resume: boolean
  /** The configuration that the program gave. */
  loaded: LoadedConfig
  options: ResolvedOptions
  bus: EventBus
  /** The run's right to write; it falls when the lock is lost. */
  fence: Fence
  /** Called when the session can take input, before `core.ready` says so. */
  onUp: (session: RunningSession) => void
}

/** A boot under way. A step reads only what the ones before it have put into the session. */
export interface Boot {
  readonly request: BootRequest
  readonly session: { -readonly [Part in keyof RunningSession]: RunningSession[Part] }
  /** What was found damaged before the first plugin wrote. */
  damage?: readonly string[]
  /** Takes the durability off the bus again. */
  leaveBus?: () => void
}

/**
 * What a boot does, in order. Events begin when the journal runs: `core.boot` first, then the plugins, then what the steps
 * before had found out.
 */
export const BOOT_STEPS: readonly BootStep<Boot>[] = [
  {
    name: 'object-store',
    async run({ request: { sessionId, resume, loaded, options, fence }, session }) {
      const of = { config: loaded.config, fresh: !resume }
      Object.assign(session, await openDurability(sessionId, of, options, fence))
    },
    undo: ({ session }) => session.durability?.finish({ clean: false }),
  },
  {
    name: 'store-probe',
    async run({ request: { options }, session }) {
      // A backend without an identity is another one in each process: nothing could be remembered of it.
      if (options.backend === undefined || options.backend.identity !== undefined)
        await session.durability?.probeStore()
    },
  },
  { name: 'shared-stores', run: ({ session }) => session.durability?.shared.hydrate() },
  {
    name: 'leftovers',
    run: ({ request }) => removeLeftovers(request.loaded.config.core.sessions.root, request.options),
  },
  {
    name: 'tree',
    async run({ request, session }) {
      const { core, journal } = request.loaded.config
      const tree = await placeTree({
        sessionId: request.sessionId,
        durability: session.durability,
        sessionsRoot: core.sessions.root,
        resume: request.resume,
        beginAgain: request.options.beginAgain,
        returnToCommit: core.sessions.restart === 'last_commit',
        profile: profileOf(request),
        fsync: journal.fsync !== 'none',
        lock: lockOptions(request),
        logger: request.options.logger,
      })
      Object.assign(session, tree)
    },
    async undo({ session }) {
      // A session that was never up leaves nothing: its configuration would be in force at the next try, with what was wrong in it.
      if (!session.resumed) await rm(session.dir, { recursive: true, force: true })
      session.lock.release()
    },
  },
  {
    name: 'owner',
    async run({ session }) {
      refuseReplacedDirectories(session.dir)
      await session.durability?.claimOwner()
    },
  },
  {
    name: 'configuration',
    run({ request, session }) {
      session.loaded = configInForce(request, session)
    },
  },
  {
    name: 'files',
    async run(boot) {
      const { session } = boot
      session.workspace = await openSessionFiles(boot)
      await atomicWriteFile(join(session.dir, CONFIG_SNAPSHOT_PATH), session.loaded.text)
    },
  },
  {
    name: 'databases',
    run(boot) {
      boot.session.storage = openDatabases(boot)
    },
    undo: ({ session }) => session.storage.dispose(),
  },
  {
    name: 'journal',
    async run(boot) {
      const { session } = boot
      session.openTurn = await openTurnOf(session)
      session.journal = await openJournal(boot)
    },
    undo: ({ session }) => session.journal.close(),
  },
  {
    name: 'inspection',
    async run(boot) {
      boot.damage = await findDamage(boot.session, boot.request.options.logger)
    },
  },
  {
    name: 'totals',
    run: ({ session: { journal, resumed, workspace } }) =>
      resumed ? recount(workspace, join(workspace.dir, 'journal'), journal.lastSeq) : undefined,
  },
  {
    name: 'recorder',
    run({ request: { bus }, session: { journal, loaded, workspace } }) {
      bus.setRecorder(new JournalRecorder(journal, loaded.config.journal, () => workspace.sync()))
    },
    undo: ({ request }) => request.bus.setRecorder(undefined),
  },
  {
    name: 'subscriptions',
    run({ request: { bus, options }, session }) {
      session.background = new AbortController()
      const unsubscribe = [
        subscribeJournalGate(bus, session.journal),
        // Before the totals: a turn that is counted has its line.
        subscribeTiming(bus, session.workspace, options.clock),
        subscribeMeta(bus, session.workspace),
        subscribeToolResults(bus, join(session.dir, 'journal'), options.logger),
      ]
      const leave = (): void => unsubscribe.forEach((each) => each())
      session.background.signal.addEventListener('abort', leave, { once: true })
    },
    undo: ({ session }) => session.background.abort(),
  },
  {
    name: 'store-on-bus',
    run(boot) {
      const { durability, journal, storage } = boot.session
      // A session without a store has no hook, and its turns take no other path.
      if (durability === undefined) return
      durability.attach({ tell: tellOn(boot.request.bus), journal, storage })
      boot.leaveBus = joinDurability(boot.request.bus, durability)
    },
    undo: ({ leaveBus }) => leaveBus?.(),
  },
  {
    name: 'plugins',
    run(boot) {
      boot.session.plugins = underOwnConfig(boot, () => openPlugins(boot))
    },
    undo: ({ session }) =>
      session.plugins.shutdown({ timeoutMs: session.loaded.config.engine.shutdown.drainTimeoutMs }),
  },
  {
    name: 'announce',
    async run({ request: { bus, options }, session: { loaded, workspace } }) {
      workspace.attachBus(bus)
      await bus.emit('core.boot', {
        profile: options.profile ?? loaded.profile,
        ...(loaded.path === undefined ? {} : { config_path: loaded.path }),
      })
    },
  },
  {
    name: 'plugin-init',
    async run(boot) {
      const { plugins, workspace } = boot.session
      await underOwnConfig(boot, () => plugins.init())
      await workspace.saveMeta({ ...workspace.meta(), plugins: plugins.pluginIds })
    },
  },
  {
    name: 'findings',
    async run({ request: { bus }, session, damage = [] }) {
      for (const error of damage) {
        await bus.emit('core.error', { source: 'core.session', error, fatal: false, retryable: false })
      }
      await session.durability?.raiseDeferred()
    },
  },
  {
    name: 'plugin-ready',
    async run(boot) {
      const { bus, options } = boot.request
      await underOwnConfig(boot, () => boot.session.plugins.ready())
      for (const warning of bus.sharedVetoPriorities()) options.logger.warn({}, warning)
    },
  },
  {
    name: 'interrupted-calls',
    run: ({ request, session }) => session.openTurn && answerInterruptedCalls(session.openTurn, request.bus),
  },
  {
    name: 'ticks',
    run({ request, session }) {
      session.ticks = new Ticks(request.bus, request.options.clock, session.loaded.config.core.tickIntervalMs)
      session.ticks.start()
    },
    undo: ({ session }) => session.ticks.stop(),
  },
  {
    name: 'ready',
    async run({ request, session }) {
      request.onUp(session)
      await request.bus.emit('core.ready', {})
    },
  },
]

/**
 * Brings a session up. A boot that fails gives back everything it took.
 *
 * @throws what the failing step says
 * @see docs/concepts/session.md
 */
export async function bootSession(request: BootRequest): Promise<RunningSession> {
  const boot: Boot = { request, session: { id: request.sessionId } as Boot['session'] }
  await runSteps(BOOT_STEPS, boot, request.options)
  return boot.session
}
