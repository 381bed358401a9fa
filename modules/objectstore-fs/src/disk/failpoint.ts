/** A named place where a test may throw or kill the process. Called in the worker, synchronously. */
export type Failpoint = (name: FsFailpoint) => void

/** Every failpoint of this backend. A crash at any of them leaves each object whole: its old content or its new one. */
export const FAILPOINTS = [
  'fs:temp-created',
  'fs:chunk-copied',
  'fs:temp-synced',
  'fs:renamed',
  'fs:linked',
  'fs:directory-synced',
  'fs:unlinked',
  'fs:moving-aside',
  'fs:moved-aside',
  'fs:directory-made',
] as const

export type FsFailpoint = (typeof FAILPOINTS)[number]

export const noFailpoint: Failpoint = () => undefined
