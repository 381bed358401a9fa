import { NexusError } from '@nexus/errors'

/**
 * The local tree is older than the store's committed generation and `core.object_store.stale_local` is `refuse`. Code
 * `PRECONDITION`; the tree was left as it is.
 */
export class StaleLocalTreeError extends NexusError {
  readonly sessionId: string
  readonly path: string
  /** The generation that the local tree derives from, or 0 when this machine doesn't know. */
  readonly localGeneration: number
  readonly remoteGeneration: number
  /** The local tree holds turns that the store never got. */
  readonly forked: boolean

  constructor(details: {
    sessionId: string
    path: string
    localGeneration: number
    remoteGeneration: number
    forked: boolean
  }) {
    const { sessionId, path, localGeneration, remoteGeneration, forked } = details
    const fork = forked ? ' and holds turns that the store never got' : ''
    super(
      'PRECONDITION',
      `session ${sessionId}: the tree at ${path} is at generation ${localGeneration}, the store is at ${remoteGeneration}` +
        `${fork}. Move the tree away, or set core.object_store.stale_local to set-aside or keep`,
      { op: 'durability.resolve-tree', key: path },
    )
    this.name = 'StaleLocalTreeError'
    this.sessionId = sessionId
    this.path = path
    this.localGeneration = localGeneration
    this.remoteGeneration = remoteGeneration
    this.forked = forked
  }
}
