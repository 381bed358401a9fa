import { FAILPOINTS as BLOB_FAILPOINTS } from '@nexus/blobs'
import { FAILPOINTS as JOURNAL_FAILPOINTS } from '@nexus/journal'
import { FAILPOINTS as STORAGE_FAILPOINTS } from '@nexus/storage'
import { HYDRATE_FAILPOINTS } from './durability/hydrate-run.ts'
import { MACHINE_RECORD_FAILPOINTS } from './durability/machine-record.ts'
import { RESOLVE_TREE_FAILPOINTS } from './durability/resolve-tree.ts'
import { SHARED_PULL_FAILPOINTS } from './durability/shared-roots-pull.ts'
import { SHARED_STORE_FAILPOINTS } from './durability/shared-roots-store.ts'
import { SNAPSHOT_FAILPOINTS } from './durability/snapshot-run.ts'
import { APPEND_FAILPOINTS } from './session/append-record.ts'
import { ATOMIC_WRITE_FAILPOINTS } from './session/atomic-write.ts'
import { CREATE_TREE_FAILPOINTS } from './session/create-tree.ts'

/**
 * Every failpoint that a run of the engine passes, those of its packages included: crash tests choose from it, so that a
 * new one can't be forgotten.
 */
export const FAILPOINTS: readonly string[] = [
  ...ATOMIC_WRITE_FAILPOINTS,
  ...APPEND_FAILPOINTS,
  ...CREATE_TREE_FAILPOINTS,
  ...BLOB_FAILPOINTS,
  ...STORAGE_FAILPOINTS,
  ...JOURNAL_FAILPOINTS,
  ...MACHINE_RECORD_FAILPOINTS,
  ...RESOLVE_TREE_FAILPOINTS,
  ...HYDRATE_FAILPOINTS,
  ...SNAPSHOT_FAILPOINTS,
  ...SHARED_PULL_FAILPOINTS,
  ...SHARED_STORE_FAILPOINTS,
]
