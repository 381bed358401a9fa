import { join } from 'node:path'
import { CONFIG_SNAPSHOT_PATH } from '@nexus/durability/names'
import { NexusError } from '@nexus/errors'
import type { EngineConfig } from '../config/engine-config.ts'
import { parseConfig, type LoadedConfig } from '../config/load.ts'
import { readPlainFile } from '@nexus/host'

/**
 * What a resumed session runs under. Where things are (roots, object store, agent id, log level) is this host's business
 * and comes from `given`; everything else is the session's own and comes from `snapshot`.
 */
function mergeForResume(given: EngineConfig, snapshot: EngineConfig): EngineConfig {
  const { sessions } = snapshot.core
  return {
    ...snapshot,
    core: {
      ...snapshot.core,
      logLevel: given.core.logLevel,
      agentId: given.core.agentId,
      sessions: { ...sessions, root: given.core.sessions.root },
      storage: given.core.storage,
      objectStore: given.core.objectStore,
    },
  }
}

/**
 * The configuration that a session's tree asks for: its own snapshot where it has one, else the given one.
 *
 * @throws NexusError `INVALID_ARGUMENT` when the stored snapshot no longer loads; the message names the way out
 * @see spec 10, Lifecycle
 */
export async function configOfTree(sessionDir: string, given: LoadedConfig): Promise<LoadedConfig> {
  const path = join(sessionDir, CONFIG_SNAPSHOT_PATH)
  const bytes = readPlainFile(path)
  if (bytes === undefined) return given
  let snapshot: LoadedConfig
  try {
    snapshot = await parseConfig(bytes, { path, storedInSession: true })
  } catch (error) {
    const detail = error instanceof Error ? error.message : String(error)
    throw new NexusError(
      'INVALID_ARGUMENT',
      `the session's own configuration, ${path}, does not load here: ${detail}\nResume with useConfigSnapshot: false to run it under the given configuration.`,
      { op: 'engine.boot', key: path, cause: error },
    )
  }
  return { ...snapshot, config: mergeForResume(given.config, snapshot.config) }
}
