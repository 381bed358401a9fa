import { MemoryBackend, type StoredObject } from '@nexus/objectstore-memory-test'
import type { OpOptions } from '@nexus/objectstore'

/** Objects that a commit consists of: the worst that can be lost is what they name, while they stay. */
const OF_A_COMMIT = /^sessions\/[^/]+(?:\.manifest\/|\.snapshot\.json$)/

/**
 * A memory backend that holds puts in a cache of its own until it is flushed, as a store may: when it loses power, they are
 * undone. To be as mean as it may be, it then loses whatever a commit names, and keeps the commit.
 */
export class WriteBackBackend extends MemoryBackend {
  readonly #before = new Map<string, StoredObject | undefined>()

  constructor(objects: ReadonlyMap<string, StoredObject>) {
    const bucket = new Map(objects)
    super({ objects: bucket })
    const set = bucket.set.bind(bucket)
    bucket.set = (key, object) => {
      if (!this.#before.has(key)) this.#before.set(key, bucket.get(key))
      return set(key, object)
    }
  }

  override async flush(options?: OpOptions): Promise<void> {
    // Only what was put before counts as flushed.
    const flushed = [...this.#before.keys()]
    await super.flush(options)
    for (const key of flushed) this.#before.delete(key)
  }

  /** Undoes what was put and not flushed. */
  losePower(): void {
    for (const [key, before] of this.#before) {
      if (OF_A_COMMIT.test(key)) continue
      if (before === undefined) this.objects.delete(key)
      else Map.prototype.set.call(this.objects, key, before)
    }
    this.#before.clear()
  }
}
