import { EventBus } from '../../src/bus/event-bus.ts'
import { silentLogger } from '@nexus/host'
import type { SessionWorkspace } from '../../src/session/workspace.ts'
import { ManualClock } from '@nexus/host/testing'
import { openTestWorkspace } from './open-test-workspace.ts'

/** A session with a real bus that stops at the first failing handler, and a clock that stands at the start of 2026-01-02. */
export async function openTestBus(): Promise<{
  bus: EventBus
  clock: ManualClock
  workspace: SessionWorkspace
  dir: string
}> {
  const clock = new ManualClock(Date.UTC(2026, 0, 2))
  const bus = new EventBus({ sessionId: 's1', clock, logger: silentLogger, failFast: true })
  const { workspace, dir } = await openTestWorkspace({ bus, clock })
  return { bus, clock, workspace, dir }
}

/** The payload of a turn event. */
export function turn(turn_id: string): { turn_id: string; session_id: string } {
  return { turn_id, session_id: 's1' }
}
