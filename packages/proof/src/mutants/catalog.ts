import { blobMutants } from './blobs.ts'
import { commitMutants } from './commit.ts'
import { directoryBucketMutants } from './directory-bucket.ts'
import { hydrationMutants } from './hydration.ts'
import { lifecycleMutants } from './lifecycle.ts'
import { placed, type Mutant, type WrittenMutant } from './mutant.ts'
import { outageMutants } from './outage.ts'
import { ownershipMutants } from './ownership.ts'
import { pageCaptureMutants } from './page-capture.ts'
import { sharedStoreMutants } from './shared-stores.ts'
import { snapshotMutants } from './snapshot.ts'
import { treeChoiceMutants } from './tree-choice.ts'

const WRITTEN: readonly WrittenMutant[] = [
  ...commitMutants,
  ...snapshotMutants,
  ...hydrationMutants,
  ...treeChoiceMutants,
  ...outageMutants,
  ...ownershipMutants,
  ...sharedStoreMutants,
  ...blobMutants,
  ...directoryBucketMutants,
  ...pageCaptureMutants,
  ...lifecycleMutants,
]

/** Every mutant that a test must catch. */
export const MUTANTS: readonly Mutant[] = WRITTEN.map(placed)
