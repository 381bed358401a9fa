import { dirname, resolve } from 'node:path'
import { NexusError } from '@nexus/errors'
import type { Place } from './place.ts'
import { pluginDatabasePath, validateAgentId } from './plugin-id.ts'

/** How long a database lives: with its session, across sessions of one agent, or on this machine. */
export type StorageScope = 'session' | 'agent' | 'app'

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

/** Below the session's directory nothing on the way to a database may be a link; elsewhere links are their owner's. */
export function databasePlace(scope: StorageScope, pluginId: string, roots: ScopeRoots): Place {
  const effective = effectiveScope(scope, roots)
  const below = pluginDatabasePath(pluginId)
  if (effective === 'session') return { root: resolve(roots.sessionDir), path: resolve(roots.sessionDir, below) }
  const agent = effective === 'app' ? [] : ['agents', validateAgentId(roots.agentId as string)]
  const path = resolve(roots.storageRoot, ...agent, below)
  return { root: dirname(path), path }
}
