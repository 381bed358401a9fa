// What tools need that look at sessions, move or remove them without running one.
export { layoutInStore } from './layout-in-store.ts'
export { hasChain } from './versioned/refuse-chain.ts'
export type { Layout, OnMixedPolicy, RestoreOptions } from './layout/layout.ts'
export { restoreAttributes, StagedTree, type Mixture, type Restored } from './layout/staged-tree.ts'
export {
  totalBytes,
  type Committed,
  type CommitHead,
  type CommittedDir,
  type CommittedFile,
  type CommittedLink,
} from './tree/committed.ts'

// Trees on a disk
export { TreeWalker, type Unstorable, type WalkedTree } from './tree/tree-walk.ts'
export { sameFileStat, type FileStat } from './tree/tree-stat.ts'
export { syncTree } from './tree/sync-tree.ts'
export { createStagingDir, removeStagingDir } from './tree/staging.ts'
export { noteSetAside, removeSetAside, setAsideTrees, type SetAsideTree } from './boot/set-aside.ts'
export { removeMachineRecord } from './boot/machine-record.ts'

// A list of files as a store keeps it
export { MANIFEST_SCHEMA_VERSION, manifestPieces, type Manifest } from './mirror/manifest/manifest.ts'
export { pathRecord } from './tree/committed.ts'
export { manifestSteps } from './mirror/manifest/parse.ts'

// Who has a session open, as its store says
export { looksLive, refuseLiveOwner, type LiveOwner, type OwnerLook } from './owner/live-owner.ts'
export { SessionOwnedError } from './owner/session-owned-error.ts'
export { parseOwnerMarker, OWNER_MARKER_LIMIT_BYTES, type OwnerMarker } from './owner/owner-marker.ts'
export { readObject } from './tree/small-object.ts'
export { defaultTimings } from './durability-timings.ts'
