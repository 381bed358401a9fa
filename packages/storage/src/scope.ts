import { join } from 'node:path'
import { NexusError } from '@nexus/errors'
import { validateAgentId, validatePluginId } from './plugin-id.ts'

/** How long a database lives: with its session, across sessions of one agent, or on this machine. */
export type StorageScope = 'session' | 'agent' | 'app'

/** The name of every plugin's database file. */
export const DATABASE_FILE = 'store.db'

/** Where the scopes have their roots. */
export interface ScopeRoots {
  readonly sessionDir: string
  readonly storageRoot: string
  readonly agentId?: string | undefined
}

/** Without an agent id, agent scope *is* app scope: one path, one handle, one object key. */
export function effectiveScope(scope: StorageScope, roots: ScopeRoots): StorageScope {
  if (scope !== 'session' && scope !== 'agent' && scope !== 'app') {
    throw new NexusError(
      'INVALID_ARGUMENT',
      `Unknown storage scope ${JSON.stringify(scope)}: use session, agent or app`,
      {
        op: 'storage.open',
      },
    )
  }
  return scope === 'agent' && !roots.agentId ? 'app' : scope
}

function scopeDir(scope: StorageScope, roots: ScopeRoots): string {
  const effective = effectiveScope(scope, roots)
  if (effective === 'session') return join(roots.sessionDir, 'plugins')
  if (effective === 'app') return join(roots.storageRoot, 'plugins')
  return join(roots.storageRoot, 'agents', validateAgentId(roots.agentId as string), 'plugins')
}

/**
 * The live path of a plugin's database.
 *
 * @see spec 30, the table of scopes
 */
export function databasePath(scope: StorageScope, pluginId: string, roots: ScopeRoots): string {
  return join(scopeDir(scope, roots), ...validatePluginId(pluginId), DATABASE_FILE)
}
