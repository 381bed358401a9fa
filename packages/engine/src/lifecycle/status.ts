import type { EventBus } from '../bus/event-bus.ts'
import type { DurabilityStatus } from '@nexus/durability'
import type { Fence } from '@nexus/host'
import type { RunningSession } from './running-session.ts'

/** Where a run is. `failed`: its boot failed and gave everything back. `lost`: another host or process has the session. */
export type Phase = 'new' | 'booting' | 'running' | 'lost' | 'stopping' | 'stopped' | 'abandoned' | 'failed'

/** A run as it stands. */
export interface EngineStatus {
  sessionId: string
  phase: Phase
  /** Absolute; absent before the boot. */
  dir?: string
  /** Whether the session existed before this run. */
  resumed?: boolean
  /** Why another host or process has the session; absent while none has. */
  lost?: string
  /** Events with handlers that have not finished. */
  outstandingEvents: number
  /** Journal position of the newest event. */
  lastSeq?: number
  /** Why the journal can't keep up; input is refused meanwhile. */
  journalBehind?: string
  /** Absent when no object store is configured. */
  durability?: DurabilityStatus
}

/** Reads the state of every part at this moment. */
export function engineStatus(
  sessionId: string,
  phase: Phase,
  session: RunningSession | undefined,
  bus: EventBus,
  fence: Fence,
): EngineStatus {
  const status: EngineStatus = {
    sessionId,
    phase,
    outstandingEvents: bus.outstanding,
    ...(fence.isLost && fence.reason !== undefined ? { lost: fence.reason.message } : {}),
  }
  if (session === undefined) return status
  const { dir, resumed, journal, durability } = session
  return {
    ...status,
    dir,
    resumed,
    lastSeq: journal.lastSeq,
    ...(journal.behind === undefined ? {} : { journalBehind: journal.behind.message }),
    ...(durability === undefined ? {} : { durability: durability.status() }),
  }
}
