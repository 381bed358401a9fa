import { sealedSegmentNumber } from '../tree/names.ts'
import type { Committed } from '../tree/committed.ts'
import type { Layout } from './layout.ts'

/** What the store holds of one session, as last seen or written by this run. */
export class CommittedGeneration {
  readonly #layout: Layout
  /** Undefined while nothing is known to be committed. */
  current: Committed | undefined

  constructor(layout: Layout) {
    this.#layout = layout
  }

  /**
   * Asks the store. While it still holds the generation we know, that costs a few bytes, whatever the commit's size.
   *
   * @returns undefined only when the store says that nothing is committed
   */
  async look(signal?: AbortSignal): Promise<Committed | undefined> {
    const known = this.current
    if (known !== undefined) {
      const head = await this.#layout.head(signal)
      if (head !== undefined && head.generation === known.generation && head.nonce === known.nonce) return known
    }
    this.current = await this.#layout.committed(signal)
    return this.current
  }

  /** Whether the committed generation names this session-relative path. */
  names(path: string): boolean {
    return this.current?.entries[path] !== undefined
  }

  /** The highest number of a sealed journal segment that the committed generation names. */
  get highestSealedSegment(): number | undefined {
    let highest: number | undefined
    for (const path of this.current?.objects ?? []) {
      const number = sealedSegmentNumber(path)
      if (number !== undefined) highest = Math.max(highest ?? 0, number)
    }
    return highest
  }
}
