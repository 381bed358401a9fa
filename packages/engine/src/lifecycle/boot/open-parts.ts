import { join } from 'node:path'
import { NexusError } from '@nexus/errors'
import { JournalWriter } from '@nexus/journal'
import type { SessionLockOptions } from '@nexus/host'
import { openStorageManager, type StorageManager } from '@nexus/storage'
import { PluginHost } from '../../plugins/plugin-host.ts'
import { openWorkspace, type SessionWorkspace } from '../../session/workspace.ts'
import type { SessionProfile } from '../../session/meta.ts'
import { ENGINE_VERSION } from '../../version.ts'
import type { Boot, BootRequest } from './boot.ts'
import { pluginDirectories } from './plugin-directories.ts'

/** What a session's metadata say of the run that began it. */
export function profileOf({ loaded, options }: BootRequest): SessionProfile {
  return { profile: options.profile ?? loaded.profile, labels: options.labels }
}

export function lockOptions({ sessionId, options, fence }: BootRequest): SessionLockOptions {
  const { transport, clock, logger, waitForLock: waitMs } = options
  const onLost = (): void => {
    const message =
      `another process took the lock of session ${sessionId}, since this one stood still for too long, or the lock is gone; ` +
      'this run has ended. Stop it: what it wrote until then is kept'
    fence.fall(new NexusError('LOCKED', message, { op: 'session.lock', key: sessionId }))
  }
  return { transport, clock, logger, waitMs, onLost }
}

export async function openSessionFiles({ request, session }: Boot): Promise<SessionWorkspace> {
  const { logger, clock, failpoint } = request.options
  return await openWorkspace({
    id: session.id,
    dir: session.dir,
    fsync: session.loaded.config.journal.fsync,
    profile: profileOf(request),
    logger,
    clock,
    failpoint,
    ...(session.durability === undefined ? {} : { blobHooks: session.durability.blobHooks }),
  })
}

export function openDatabases({ request, session }: Boot): StorageManager {
  const { durability, loaded, workspace } = session
  const { logger, failpoint } = request.options
  const { agentId, storage } = loaded.config.core
  const { root, ...settings } = storage
  return openStorageManager({
    sessionDir: workspace.dir,
    storageRoot: root,
    ...settings,
    logger,
    failpoint: (name) => void failpoint(name),
    ...(agentId === '' ? {} : { agentId }),
    ...(durability === undefined
      ? {}
      : { beforeOpen: (scope, pluginId, path) => durability.shared.guard(scope, pluginId, path) }),
  })
}

export async function openJournal({ request, session }: Boot): Promise<JournalWriter> {
  const { fsync, rotateBytes } = session.loaded.config.journal
  const { logger, clock, failpoint } = request.options
  const committedSegment = session.durability?.committedSegment
  return await JournalWriter.open(join(session.workspace.dir, 'journal'), {
    fsync,
    rotateBytes,
    sessionId: session.id,
    logger,
    clock,
    // The journal works synchronously, so it can't wait for a failpoint.
    failpoint: (name) => void failpoint(name),
    // It may fail within the dispatch of an event: told when that is over.
    onError: ({ message: error }) => {
      const payload = { source: 'core.journal', error, fatal: false, retryable: true }
      queueMicrotask(() => void request.bus.emit('core.error', payload))
    },
    ...(committedSegment === undefined ? {} : { committedSegment }),
  })
}

export function openPlugins({ request, session }: Boot): PluginHost {
  const { bus, options } = request
  const { loaded, workspace, journal, storage } = session
  return new PluginHost({
    plugins: options.plugins,
    loaded,
    bus,
    logger: options.logger,
    clock: options.clock,
    instanceId: options.instanceId,
    replaying: options.replaying,
    engineInfo: {
      version: ENGINE_VERSION,
      sessionId: session.id,
      agentId: loaded.config.core.agentId,
      profile: options.profile ?? loaded.profile,
    },
    session: workspace,
    journal,
    storage: (scope, pluginId) => storage.open(scope, pluginId),
    directories: pluginDirectories(loaded.config, workspace),
  })
}
