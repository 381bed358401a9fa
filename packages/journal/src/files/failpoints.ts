import type { SyncFailpoint } from '@nexus/host'

/**
 * Every place where a test may throw or kill the process, as `area:step`. Each stands between two steps whose order
 * matters, and is visited by the crash tests.
 */
export const FAILPOINTS = [
  'open:header-written',
  'open:torn-part-written',
  'open:torn-cut',
  'open:newline-added',
  'open:overlap-found',
  'append:before-write',
  'append:after-write',
  'sync:before',
  'sync:after',
  'rewrite:begin',
  'rewrite:copied',
  'rewrite:synced',
  'rewrite:renamed',
  'rotate:begin',
  'rotate:slice',
  'rotate:sealed',
  'rotate:renamed',
  'rotate:dir-synced',
  'rotate:tail-copied',
  'rotate:tail-synced',
  'rotate:tail-renamed',
  'rotate:truncated',
  'snapshot:begin',
  'snapshot:copied',
  'rewind:archive-copied',
  'rewind:archived',
  'rewind:staged',
  'rewind:decided',
  'rewind:segments-linked',
  'rewind:active-renamed',
  'rewind:segments-removed',
] as const

/** One of {@link FAILPOINTS}. */
export type FailpointName = (typeof FAILPOINTS)[number]

/** Called at each of {@link FAILPOINTS}. May throw, which counts as a failure of the step, or end the process. */
export type Failpoint = SyncFailpoint<FailpointName>
