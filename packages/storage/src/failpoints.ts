/** Every failpoint of this package, on whichever thread it is reached. */
export const FAILPOINTS = [
  'storage:open-before-wal',
  'storage:reserved',
  'storage:before-checkpoint',
  'storage:after-checkpoint',
  'storage:before-vacuum',
  'storage:after-vacuum',
  'storage:before-backup',
  'storage:backup-step',
  'storage:after-backup',
  'storage:before-close',
] as const
