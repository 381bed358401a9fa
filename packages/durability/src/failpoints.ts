import { HYDRATE_FAILPOINTS } from './boot/hydrate.ts'
import { MACHINE_RECORD_FAILPOINTS } from './boot/machine-record.ts'
import { RESOLVE_TREE_FAILPOINTS } from './boot/replace-tree.ts'
import { SNAPSHOT_FAILPOINTS } from './commit/snapshot.ts'
import { SHARED_PULL_FAILPOINTS } from './shared/shared-roots-pull.ts'
import { SHARED_STORE_FAILPOINTS } from './shared/shared-roots-store.ts'
import { HISTORY_FAILPOINTS } from './versioned/change/failpoints.ts'
import { VERSIONED_FAILPOINTS } from './versioned/failpoints.ts'

/** Every failpoint of this package. */
export const FAILPOINTS: readonly string[] = [
  ...MACHINE_RECORD_FAILPOINTS,
  ...RESOLVE_TREE_FAILPOINTS,
  ...HYDRATE_FAILPOINTS,
  ...SNAPSHOT_FAILPOINTS,
  ...SHARED_PULL_FAILPOINTS,
  ...SHARED_STORE_FAILPOINTS,
  ...VERSIONED_FAILPOINTS,
  ...HISTORY_FAILPOINTS,
]
