import { join } from 'node:path'
import { sweepStaging, sweepTemps } from '@nexus/durability'
import { type Clock, type Logger, readLockState, Slices } from '@nexus/host'
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

/**
 * Removes temporary files whose writer is dead: in the session's tree, and where the machine's records lie. In the background,
 * since a tree may be large. A failure is logged.
 */
export async function removeTemps(
  dirs: readonly string[],
  { clock, logger, signal }: { clock: Clock; logger: Logger; signal: AbortSignal },
): Promise<void> {
  for (const dir of dirs) {
    try {
      const removed = await sweepTemps(dir, { nowMs: clock.now(), slices: new Slices({ signal }) })
      if (removed.length > 0) logger.debug({ dir, removed }, 'removed temporary files of killed runs')
    } catch (error) {
      if (!signal.aborted) logger.debug({ err: error, dir }, 'temporary files of killed runs could not be removed')
    }
  }
}
