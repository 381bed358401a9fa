import { RECLAIM_FAILPOINTS } from '../store/write/reclaim-store.ts'
import { FORGET_FAILPOINTS } from './collect-garbage.ts'
import { MIGRATE_FAILPOINTS } from './migrate-session.ts'
import { PURGE_FAILPOINTS } from './purge-history.ts'
import { REMOVE_CHAIN_FAILPOINTS } from './remove-session.ts'

/** Failpoints of what changes a versioned session without running it. */
export const HISTORY_FAILPOINTS: readonly string[] = [
  ...RECLAIM_FAILPOINTS,
  ...PURGE_FAILPOINTS,
  ...REMOVE_CHAIN_FAILPOINTS,
  ...FORGET_FAILPOINTS,
  ...MIGRATE_FAILPOINTS,
]
