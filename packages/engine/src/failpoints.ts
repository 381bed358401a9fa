import { FAILPOINTS as BLOB_FAILPOINTS } from '@nexus/blobs'
import { FAILPOINTS as DURABILITY_FAILPOINTS } from '@nexus/durability'
import { ATOMIC_WRITE_FAILPOINTS } from '@nexus/host'
import { FAILPOINTS as JOURNAL_FAILPOINTS } from '@nexus/journal'
import { FAILPOINTS as STORAGE_FAILPOINTS } from '@nexus/storage'
import { BOOT_STEPS } from './lifecycle/boot/boot.ts'
import { APPEND_FAILPOINTS } from './session/files/append-record.ts'
import { CREATE_TREE_FAILPOINTS } from './session/create-tree.ts'

/**
 * Every failpoint that a run of the engine passes, those of its packages included: crash tests choose from it, so that a
 * new one can't be forgotten.
 */
export const FAILPOINTS: readonly string[] = [
  ...BOOT_STEPS.map(({ name }) => `boot:${name}`),
  ...ATOMIC_WRITE_FAILPOINTS,
  ...APPEND_FAILPOINTS,
  ...CREATE_TREE_FAILPOINTS,
  ...BLOB_FAILPOINTS,
  ...STORAGE_FAILPOINTS,
  ...JOURNAL_FAILPOINTS,
  ...DURABILITY_FAILPOINTS,
]
