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
