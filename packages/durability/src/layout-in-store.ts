import { NexusError } from '@nexus/errors'
import { noFailpoint, silentLogger, systemClock, type Logger } from '@nexus/host'
import type { ObjectStore } from '@nexus/objectstore'
import type { Layout } from './layout/layout.ts'
import { mirrorLayout } from './mirror-layout.ts'
import { hasChain } from './versioned/refuse-chain.ts'

/**
 * The layout that a session has in a store, for those who only read it: mirror, for that of a versioned session is refused.
 *
 * @param scratchDir where short-lived files go; made when it is missing
 * @throws NexusError `INVALID_ARGUMENT` for what can't be a session's id, `UNSUPPORTED` for a session of the versioned
 *   layout, the store's error
 */
export async function layoutInStore(
  store: ObjectStore,
  sessionId: string,
  scratchDir: string,
  logger: Logger = silentLogger,
): Promise<Layout> {
  if (await hasChain(store, sessionId)) {
    throw new NexusError(
      'UNSUPPORTED',
      `session ${sessionId} is in the versioned layout (sessions/${sessionId}.v/), which only the engine can read: ` +
        'open it with core.object_store.layout versioned',
      { op: 'durability.read', key: sessionId },
    )
  }
  return mirrorLayout({ store, sessionId, clock: systemClock, logger, failpoint: noFailpoint }, scratchDir)
}
