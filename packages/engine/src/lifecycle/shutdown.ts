import { join } from 'node:path'
import type { EventBus } from '../bus/event-bus.ts'
import type { ResolvedOptions } from '../engine-options.ts'
import { atomicWriteFile, Deadline } from '@nexus/host'
import { endedMeta } from '../session/meta.ts'
import { CONFIG_SNAPSHOT_PATH } from '@nexus/durability/names'
import type { RunningSession } from './running-session.ts'

/** Why and how a session ends. */
export interface ShutdownRequest {
  session: RunningSession
  bus: EventBus
  options: ResolvedOptions
  reason: string
  /** False after an abandon: nothing goes to the store any more, and nothing is recorded as a clean end. */
  clean: boolean
}

/**
 * Ends a run. The order is what makes the final snapshot whole: nothing new comes in, plugins end, metadata say so, the
 * journal and the databases close, and only then is the tree stored; the owner marker and the lock go last.
 *
 * Bounded by `engine.shutdown.drain_timeout`. Rejects under `strict` when the last snapshot or flush failed; everything
 * is released all the same.
 *
 * @see docs/operations/running.md
 */
export async function shutdownSession({ session, bus, options, reason, clean }: ShutdownRequest): Promise<void> {
  const { workspace, plugins, journal, storage, durability, loaded, lock, ticks, background } = session
  const { logger, clock } = options
  const deadline = new Deadline('engine.stop', loaded.config.engine.shutdown.drainTimeoutMs, clock)
  const step = async (what: string, work: () => Promise<unknown>): Promise<void> => {
    try {
      await deadline.race(work())
    } catch (error) {
      logger.warn(
        { err: error, session_id: session.id, step: what },
        'a step of the shutdown failed; going on with the next',
      )
    }
  }
  ticks.stop()
  try {
    if (durability !== undefined) await step('object store', () => durability.detachInputs())
    if (clean) await step('announce', () => bus.emit('core.shutdown', { reason }))
    await step('plugins', () => plugins.shutdown({ timeoutMs: deadline.leftMs }))
    // Handlers that never settle get half of what is left; the rest belongs to the final snapshot.
    await step('events', () => bus.drain({ timeoutMs: deadline.leftMs / 2 }))
    background.abort()
    if (clean) {
      await step('metadata', () => workspace.saveMeta(endedMeta(workspace.meta(), clock.now())))
      await step('configuration', () => atomicWriteFile(join(session.dir, CONFIG_SNAPSHOT_PATH), loaded.text))
    }
    await step('files', () => workspace.idle())
    workspace.close()
    bus.setRecorder(undefined)
    await step('journal', () => journal.close())
    await step('databases', () => storage.closeAll())
    await durability?.finish({ clean, timeoutMs: Math.max(deadline.leftMs, MIN_FINISH_MS) })
  } finally {
    bus.close()
    await step('storage', () => storage.dispose())
    deadline.clear()
    lock.release()
  }
}

/** What the store is given at least, however long the plugins took: without it a slow plugin would cost the snapshot. */
const MIN_FINISH_MS = 2_000
