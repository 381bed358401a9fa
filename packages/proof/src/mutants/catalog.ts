import { blobMutants } from './blobs.ts'
import { commitMutants } from './commit.ts'
import { directoryBucketMutants } from './directory-bucket.ts'
import { hydrationMutants } from './hydration.ts'
import { lifecycleMutants } from './lifecycle.ts'
import type { Mutant } from './mutant.ts'
import { outageMutants } from './outage.ts'
import { ownershipMutants } from './ownership.ts'
import { sharedStoreMutants } from './shared-stores.ts'
import { snapshotMutants } from './snapshot.ts'
import { treeChoiceMutants } from './tree-choice.ts'

/** Every mutant that a test must catch. */
export const MUTANTS: readonly Mutant[] = [
  ...commitMutants,
  ...snapshotMutants,
  ...hydrationMutants,
  ...treeChoiceMutants,
  ...outageMutants,
  ...ownershipMutants,
  ...sharedStoreMutants,
  ...blobMutants,
  ...directoryBucketMutants,
  ...lifecycleMutants,
]
