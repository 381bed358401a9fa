import { join } from 'node:path'
import { sweepStaging } from '@nexus/durability'
import { readLockState } from '@nexus/host'
import type { ResolvedOptions } from '../engine-options.ts'

/** A staging directory gets its lock within milliseconds of being made; one this young is given the benefit of the doubt. */
const YOUNG_STAGING_MS = 10_000

/** Removes what killed processes left. It is housekeeping: a failure is logged and the boot goes on. */
export async function removeLeftovers(sessionsRoot: string, { clock, logger }: ResolvedOptions): Promise<void> {
  try {
    await sweepStaging(sessionsRoot, ({ path, kind, sessionId, changedAtMs }) => {
      if (clock.now() - changedAtMs < YOUNG_STAGING_MS) return true
      return readLockState(kind === 'hydrating' ? path : join(sessionsRoot, sessionId), { clock }) === 'live'
    })
  } catch (error) {
    logger.warn({ err: error }, 'what an earlier process left beside the sessions could not be removed')
  }
}
