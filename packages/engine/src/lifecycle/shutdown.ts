import { join } from 'node:path'
import { CONFIG_SNAPSHOT_PATH } from '@nexus/durability/names'
import { NexusError } from '@nexus/errors'
import { atomicWriteFile, Deadline, type Fence } from '@nexus/host'
import type { EventBus } from '../bus/event-bus.ts'
import type { ResolvedOptions } from '../engine-options.ts'
import { endedMeta } from '../session/meta.ts'
import type { RunningSession } from './running-session.ts'

/** Why and how a session ends. */
export interface ShutdownRequest {
  session: RunningSession
  bus: EventBus
  fence: Fence
  options: ResolvedOptions
  reason: string
  /** False after an abandon or a loss: nothing is written any more, here or in the store. */
  clean: boolean
  /** Leave the last commit out when nothing but the session's own end has changed since the one before. */
  onlyIfNew?: boolean
}

/** Shares of `engine.shutdown.drain_timeout`. The rest, and what they leave, is the store's: the last snapshot is whole. */
const PLUGINS_SHARE = 0.4
const CLOSING_SHARE = 0.2

/**
 * Ends a run. The order is what makes the final snapshot whole: nothing new comes in, plugins end, metadata say so, the
 * journal and the databases close, and only then is the tree stored; the owner marker and the lock go last.
 *
 * Bounded by `engine.shutdown.drain_timeout`; no part can eat the share of another. Everything is released, whatever fails.
 *
 * @throws under `failure_policy: strict`, what was lost: the last snapshot or flush, or what the journal, the databases or the
 *   metadata could not write
 * @see docs/operations/running.md
 */
export async function shutdownSession(request: ShutdownRequest): Promise<void> {
  const { session, bus, fence, options, reason, clean, onlyIfNew = false } = request
  const { workspace, plugins, journal, storage, durability, loaded } = session
  const { logger, clock } = options
  const limitMs = loaded.config.engine.shutdown.drainTimeoutMs
  const total = new Deadline('engine.stop', limitMs, clock)
  const graceful = new Deadline('the end of the plugins', limitMs * PLUGINS_SHARE, clock)
  let closing: Deadline | undefined
  const lost: unknown[] = []
  const step = async (what: string, within: Deadline, work: () => Promise<unknown>, writes = false): Promise<void> => {
    try {
      await within.race(work())
    } catch (error) {
      if (writes) lost.push(error)
      logger.warn({ err: error, session_id: session.id, step: what }, 'a step of the shutdown failed; going on')
    }
  }
  session.ticks.stop()
  try {
    if (durability !== undefined) {
      await step('object store', graceful, () => durability.detachInputs(graceful.leftMs / 4))
    }
    if (clean) await step('announce', graceful, () => bus.emit('core.shutdown', { reason }))
    await step('plugins', graceful, () => plugins.shutdown({ timeoutMs: graceful.leftMs * 0.75 }))
    await step('events', graceful, () => bus.drain({ timeoutMs: graceful.leftMs }))
    closing = new Deadline('closing the session', limitMs * CLOSING_SHARE, clock)
    session.background.abort()
    if (clean) {
      const ended = endedMeta(workspace.meta(), clock.now())
      await step('metadata', closing, () => workspace.saveMeta(ended), true)
      const configPath = join(session.dir, CONFIG_SNAPSHOT_PATH)
      await step('configuration', closing, () => atomicWriteFile(configPath, loaded.text), true)
    }
    await step('files', closing, () => workspace.idle())
    detachSession(session, bus)
    // What it can't write by then is lost, and no timer of it may keep the process.
    const deadlineMs = closing.leftMs
    await step('journal', closing, () => (clean ? journal.close({ deadlineMs }) : journal.abandon()), clean)
    await step('databases', closing, () => storage.closeAll(), clean)
    await durability?.finish({ clean, onlyIfNew, timeoutMs: total.leftMs })
  } catch (error) {
    lost.unshift(error)
  } finally {
    await releaseSession(session, bus, fence, (work) => step('storage', total, work))
    for (const deadline of [total, graceful, closing]) deadline?.clear()
  }
  if (clean && lost.length > 0 && loaded.config.core.objectStore?.failurePolicy === 'strict') throw lost[0]
}

/** What writes to the session by itself ends, at once: its events are recorded no more, and no file of it is written. */
export function detachSession({ ticks, background, workspace }: RunningSession, bus: EventBus): void {
  ticks.stop()
  background.abort()
  workspace.close()
  bus.setRecorder(undefined)
}

/** Gives back what is local of a session that has ended. */
export async function releaseSession(
  { id, storage, lock }: RunningSession,
  bus: EventBus,
  fence: Fence,
  step: (work: () => Promise<void>) => Promise<void>,
): Promise<void> {
  fence.fall(new NexusError('CLOSED', `session ${id} has ended`, { op: 'engine', key: id }))
  bus.close()
  await step(() => storage.dispose())
  lock.release()
}

/** Drops a session as a killed process would, and gives back what is local. Bounded; never rejects. */
export async function abandonSession(session: RunningSession, bus: EventBus, fence: Fence): Promise<void> {
  detachSession(session, bus)
  bus.close()
  const { journal, storage, durability } = session
  fence.fall(new NexusError('CLOSED', `session ${session.id} was abandoned`, { op: 'engine', key: session.id }))
  await Promise.allSettled([durability?.abandon(), journal.abandon(), storage.closeAll()])
  await releaseSession(session, bus, fence, (work) => work().catch(() => undefined))
}
