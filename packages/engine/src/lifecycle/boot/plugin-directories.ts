import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { validatePluginId } from '@nexus/storage'
import type { EngineConfig } from '../../config/engine-config.ts'
import type { PluginDirectories } from '../../plugins/plugin-host.ts'
import type { SessionWorkspace } from '../../session/workspace.ts'

const OWNER_ONLY = 0o700

function made(dir: string): string {
  mkdirSync(dir, { recursive: true, mode: OWNER_ONLY })
  return dir
}

/**
 * Where a plugin keeps files: in the session, on this machine, and for this agent. Only the session's cross to the object
 * store; of the other two, `store.db` alone does.
 */
export function pluginDirectories(config: EngineConfig, workspace: SessionWorkspace): PluginDirectories {
  const { agentId, storage } = config.core
  const app = (pluginId: string): string => made(join(storage.root, 'plugins', ...validatePluginId(pluginId)))
  return {
    data: (pluginId) => workspace.pluginDir(pluginId),
    appData: app,
    agentData: (pluginId) =>
      agentId === ''
        ? app(pluginId)
        : made(join(storage.root, 'agents', agentId, 'plugins', ...validatePluginId(pluginId))),
  }
}
