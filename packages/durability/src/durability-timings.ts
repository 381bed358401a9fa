/** The constants of the durability layer, in one place. Production runs with {@link defaultTimings}; tests inject theirs. */
export interface DurabilityTimings {
  /** First retry delay of an outage; doubles from there. */
  retryFirstMs: number
  /** Longest retry delay. */
  retryMaxMs: number
  /** Failed pushes that wait for a retry; beyond it, a whole snapshot is owed instead. */
  retryQueueLimit: number
  /** Blobs that wait for their first upload; beyond it, the next snapshot takes them. */
  writeThroughLimit: number
  /** How long the write-through queue stays empty before the store is flushed. */
  quietMs: number
  /** How long a stop waits for blobs on their way. */
  drainMs: number
  /** Between two heartbeats of the owner marker. */
  heartbeatMs: number
  /** Age from which another instance's heartbeat counts as dead. */
  ownerStaleMs: number
  /** How long an input may take to become a turn; a retry waits that long after one. */
  inputSettleMs: number
  /** A turn in which nothing is journaled for so long has ended without saying so. */
  turnStallMs: number
  /** How long a snapshot waits for the handlers of the events that it raises. */
  announceMs: number
  /** How long a snapshot waits for another process that copies the same shared store. */
  sharedLockMs: number
  /** How long the backend may take to close. */
  closeMs: number
}

export const defaultTimings: Readonly<DurabilityTimings> = {
  retryFirstMs: 1_000,
  retryMaxMs: 60_000,
  retryQueueLimit: 256,
  writeThroughLimit: 256,
  quietMs: 100,
  drainMs: 10_000,
  heartbeatMs: 30_000,
  ownerStaleMs: 300_000,
  inputSettleMs: 5_000,
  turnStallMs: 600_000,
  announceMs: 10_000,
  sharedLockMs: 30_000,
  closeMs: 5_000,
}
