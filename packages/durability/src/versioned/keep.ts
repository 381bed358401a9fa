import type { KeepPolicy } from './core/reclaim.ts'

const DAY_MS = 86_400_000

/** Which generations of a versioned session are kept, as it is configured: `core.object_store.keep`. */
export interface KeepOptions {
  /** One goes when so many newer exist and it is `days` old; the newest 64 stay. At least 2. */
  readonly generations: number
  readonly days: number
  /** And when more than so many exist. At least 2. */
  readonly atMost: number
}

/** How long generations and the session itself are kept in the store. */
export interface Retention {
  keep: KeepOptions
  /** The session may be removed so long after its last commit. 0: never. */
  ttlMs: number
}

export const DEFAULT_KEEP: KeepOptions = { generations: 64, days: 7, atMost: 1000 }

/** As reclaim goes by it. */
export function keepPolicy({ generations, days, atMost }: KeepOptions = DEFAULT_KEEP): KeepPolicy {
  return { generations: Math.max(2, generations), ageMs: days * DAY_MS, atMost: Math.max(2, atMost) }
}
