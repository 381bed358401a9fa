import type { EventBus } from './bus/event-bus.ts'
import type { DurabilityStatus } from '@nexus/durability'
import type { Fence } from '@nexus/host'
import type { RunningSession } from './lifecycle/running-session.ts'

/** The answer to an input. */
export interface InputOutcome {
  accepted: boolean
  /** Why not. */
  reason?: string
  /** How many of its handlers threw; absent when none did. The others ran, and each failure became one `core.error`. */
  failed?: number
  /** What the first of them threw. */
  error?: unknown
  /** Why its turn failed or was cancelled, as its `agent.turn.end` says; absent when it went well. */
  turnError?: string
}

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
