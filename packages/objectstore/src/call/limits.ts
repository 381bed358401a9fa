/** What a call may take. All constants in production but the rate; tests inject smaller ones, or a clock. */
export interface Deadlines {
  /** How far behind the slowest accepted rate a call that reports may fall. */
  idleMs: number
  /** What a call that never reports has, before its size is looked at. */
  baseMs: number
  /** What a call that never reports gets a second more for, divided by the calls in flight: they share the link. */
  bytesPerSecond: number
  /** What a call that never reports gets more for each object that it is about. */
  perObjectMs: number
  /** How long a driver that was told to stop is waited for, so that it is not still writing when the caller goes on. */
  graceMs: number
}

/** What production runs with. */
export const DEFAULT_DEADLINES: Readonly<Deadlines> = {
  idleMs: 30_000,
  baseMs: 30_000,
  bytesPerSecond: 1024 * 1024,
  perObjectMs: 250,
  graceMs: 1_000,
}

/** The slowest accepted rate, in KiB per second, of all calls in flight together. */
export const DEFAULT_MIN_RATE_KIB_S = 16
