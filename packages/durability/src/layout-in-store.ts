import { noFailpoint, silentLogger, systemClock, type Logger } from '@nexus/host'
import type { ObjectStore } from '@nexus/objectstore'
import type { Layout } from './layout/layout.ts'
import { mirrorLayout } from './mirror-layout.ts'

/**
 * The layout that a session has in a store, for those who only read it.
 *
 * @param scratchDir where short-lived files go; made when it is missing
 * @throws NexusError `INVALID_ARGUMENT` for what can't be a session's id
 */
export async function layoutInStore(
  store: ObjectStore,
  sessionId: string,
  scratchDir: string,
  logger: Logger = silentLogger,
): Promise<Layout> {
  return mirrorLayout({ store, sessionId, clock: systemClock, logger, failpoint: noFailpoint }, scratchDir)
}
