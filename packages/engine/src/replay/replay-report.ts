import type { EngineOptions } from '../engine-options.ts'

/** How a session is taken once more. */
export interface ReplayOptions extends Pick<
  EngineOptions,
  'plugins' | 'logger' | 'clock' | 'asyncContext' | 'useConfigSnapshot'
> {
  /** How long one turn may take, in milliseconds. Default 120,000. */
  turnTimeoutMs?: number
  signal?: AbortSignal
}

/** An event as it stands in a journal. */
export interface ReplayedEvent {
  type: string
  payload: unknown
  /** A gate refused it. */
  vetoed?: true
  /** Why. */
  reason?: string
}

/** Where a replay went another way. */
export interface ReplayDifference {
  /** Which of the completed turns, from 1. */
  turn: number
  /** Which event of the turn, from 1. */
  event: number
  /** What the session has; absent when the replay said more. */
  expected?: ReplayedEvent
  /** What the replay had; absent when it said less. */
  found?: ReplayedEvent
}

/** How a replay went. */
export interface ReplayReport {
  /** Completed turns that were taken again. */
  turns: number
  /** Events that were compared and are the same. */
  events: number
  /** The first event that differs; absent when none does. */
  firstDifference?: ReplayDifference
}
