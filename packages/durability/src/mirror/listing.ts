import { isNexusError, NexusError } from '@nexus/errors'
import { trimKeyPrefix, type ObjectStore } from '@nexus/objectstore'
import type { Logger } from '@nexus/host'

/** What the store says it holds, by session-relative path: bytes. Undefined when it can't list. */
export type StoredSizes = ReadonlyMap<string, number> | undefined

/**
 * Asks the store for the directories whose files may be skipped, and for no others: a session with a hundred thousand
 * ordinary files would pay for a hundred pages at every turn and use none of them.
 */
export class SnapshotListing {
  readonly #store: ObjectStore
  readonly #treeKey: string
  readonly #signal: AbortSignal | undefined
  readonly #logger: Logger
  readonly #asked = new Map<string, Promise<Map<string, number> | undefined>>()

  constructor(options: { store: ObjectStore; treeKey: string; signal?: AbortSignal | undefined; logger: Logger }) {
    this.#store = options.store
    this.#treeKey = options.treeKey
    this.#signal = options.signal
    this.#logger = options.logger
  }

  /** Begins to list a directory of the session; asking again costs nothing. */
  ask(dir: string): void {
    if (this.#asked.has(dir)) return
    const listing = this.#list(dir)
    listing.catch(() => undefined) // The caller of sizes() gets it.
    this.#asked.set(dir, listing)
  }

  /**
   * Everything that was asked for. Rejects when the store fails for the moment; a store that answers that it can't, or may
   * not, list makes this undefined, and then everything is uploaded.
   */
  async sizes(): Promise<StoredSizes> {
    const all = new Map<string, number>()
    for (const listing of await Promise.all(this.#asked.values())) {
      if (listing === undefined) return undefined
      for (const [path, size] of listing) all.set(path, size)
    }
    return all
  }

  async #list(dir: string): Promise<Map<string, number> | undefined> {
    try {
      const prefix = `${this.#treeKey}/${dir}`
      const objects = await this.#store.list(prefix, { signal: this.#signal })
      return new Map(objects.map(({ key, size }) => [trimKeyPrefix(key, this.#treeKey) ?? key, size]))
    } catch (error) {
      this.#signal?.throwIfAborted()
      if (isPassing(error)) throw error
      this.#logger.warn({ err: error, dir }, 'the store can not be listed: everything is uploaded again')
      return undefined
    }
  }
}

function isPassing(error: unknown): boolean {
  return error instanceof NexusError || isNexusError(error) ? error.retryable || error.code === 'CLOSED' : false
}
