import type { ObjectStore } from '@nexus/objectstore'
import type { StorageManager } from '@nexus/storage'
import type { Clock } from '../clock.ts'
import type { Failpoint } from '../failpoint.ts'
import type { Logger } from '../logger.ts'

export interface SharedResult {
  objects: number
  bytes: number
  dbDurationMs: number
  error?: Error
}

export interface SharedRootsOptions {
  store: ObjectStore
  sessionId: string
  storageRoot: string
  agentId: string | undefined
  storeId: string
  clock: Clock
  logger: Logger
  failpoint: Failpoint
  lockMs: number
  onUnreachable: (error: Error) => void
}
export class SharedRoots {
  readonly complete = true
  readonly refused: string[] = []
  constructor(_options: SharedRootsOptions) {}
  async hydrate(_options: { signal?: AbortSignal; again?: boolean } = {}): Promise<void> {}
  guard(_scope: string, _pluginId: string, _path: string): void {}
  async snapshot(_storage: StorageManager | undefined, _signal: AbortSignal): Promise<SharedResult> {
    return { objects: 0, bytes: 0, dbDurationMs: 0 }
  }
}
