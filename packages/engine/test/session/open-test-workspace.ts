import { createSessionTree } from '../../src/session/create-tree.ts'
import type { EmitTarget } from '../../src/session/files/file-events.ts'
import { openWorkspace, type OpenWorkspaceOptions, type SessionWorkspace } from '../../src/session/workspace.ts'
import { tempDir } from '@nexus/host/testing'

/** A file event without what is the same in all of them. */
export interface SeenEvent {
  type: string
  path: string
  size?: number
  offset?: number
  bytes_added?: number
}

/** A bus that remembers, and may do something of its own. */
export class SeenEvents implements EmitTarget {
  readonly payloads: Record<string, unknown>[] = []
  readonly events: SeenEvent[] = []
  handler: (event: SeenEvent) => Promise<void> | void = () => undefined

  async emit(type: string, payload: unknown): Promise<void> {
    const { _schema_version, session_id, ...rest } = payload as {
      _schema_version: number
      session_id: string
      path: string
    }
    this.payloads.push({ type, _schema_version, session_id, ...rest })
    const event: SeenEvent = { type: type.replace('session.file.', ''), ...rest }
    this.events.push(event)
    await this.handler(event)
  }

  /** What came since the last call. */
  take(): SeenEvent[] {
    return this.events.splice(0)
  }
}

/** A session in a directory of its own, for the running test. */
export async function openTestWorkspace(
  options: Partial<OpenWorkspaceOptions> = {},
): Promise<{ workspace: SessionWorkspace; dir: string; seen: SeenEvents }> {
  const dir = await createSessionTree(tempDir(), 's1', { fsync: false })
  const seen = new SeenEvents()
  const workspace = await openWorkspace({ id: 's1', dir, bus: seen, fsync: 'none', ...options })
  return { workspace, dir, seen }
}
