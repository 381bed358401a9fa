import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { ObjectStore } from '@nexus/objectstore'
import { readCommittedManifest, readCommittedPair } from '../mirror/manifest-store.ts'
import type { Manifest } from '../mirror/manifest.ts'
import { sealedSegmentNumber } from '../tree/names.ts'

/** What the store holds of one session, as last seen or written by this run. */
export class CommittedGeneration {
  readonly #store: ObjectStore
  readonly #sessionId: string
  readonly #scratchDir: string
  #manifest: Manifest | undefined

  constructor(store: ObjectStore, sessionId: string, sessionsRoot: string) {
    this.#store = store
    this.#sessionId = sessionId
    this.#scratchDir = join(sessionsRoot, '.machine')
  }

  /** Undefined while nothing is known to be committed. */
  get manifest(): Manifest | undefined {
    return this.#manifest
  }

  set manifest(manifest: Manifest | undefined) {
    this.#manifest = manifest
  }

  /**
   * Asks the store. While it still holds the generation we know, that costs a few bytes, whatever the manifest's size.
   *
   * @returns undefined only when the store says that nothing is committed
   */
  async look(signal?: AbortSignal): Promise<Manifest | undefined> {
    const known = this.#manifest
    const options = { scratchDir: this.#scratchDir, ...(signal === undefined ? {} : { signal }) }
    await mkdir(this.#scratchDir, { recursive: true, mode: 0o700 })
    if (known !== undefined) {
      const pair = await readCommittedPair(this.#store, this.#sessionId, options)
      if (pair !== undefined && pair.generation === known.generation && pair.nonce === known.nonce) return known
    }
    this.#manifest = await readCommittedManifest(this.#store, this.#sessionId, options)
    return this.#manifest
  }

  /** Whether the committed generation names this session-relative path. */
  names(path: string): boolean {
    return this.#manifest?.entries[path] !== undefined
  }

  /** The highest number of a sealed journal segment that the committed generation names. */
  get highestSealedSegment(): number | undefined {
    let highest: number | undefined
    for (const path of this.#manifest?.objects ?? []) {
      const number = sealedSegmentNumber(path)
      if (number !== undefined) highest = Math.max(highest ?? 0, number)
    }
    return highest
  }
}
