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

/** Called in the worker, synchronously. */
export type FsFailpoint = (typeof FAILPOINTS)[number]
