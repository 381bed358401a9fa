import { SESSION_RECORD_FAILPOINTS } from './record-file.ts'

/** Failpoints that a commit passes only in the versioned layout, in order; `file-read` is passed once per file. */
export const VERSIONED_FAILPOINTS: readonly string[] = [
  'snapshot:file-read',
  'snapshot:read',
  'snapshot:before-commit',
  ...SESSION_RECORD_FAILPOINTS,
  'snapshot:committed',
]
