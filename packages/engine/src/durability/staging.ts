import { NexusError } from '@nexus/errors'

/** A staging directory found beside the sessions. */
export interface StagingDir {
  path: string
  kind: 'hydrating' | 'snapshot'
  sessionId: string
}

/**
 * Removes what killed snapshots and hydrations left under `sessionsRoot`.
 *
 * @param isAlive tells whether a live process may still be using it; then it is left alone
 * @returns the removed paths
 */
export async function sweepStaging(
  _sessionsRoot: string,
  _isAlive: (staging: StagingDir) => boolean | Promise<boolean>,
): Promise<string[]> {
  throw new NexusError('INTERNAL', 'sweepStaging is not built yet')
}
