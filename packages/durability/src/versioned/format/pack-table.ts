import type { ChunkRef } from './bytes/chunk.ts'
import { DamagedObjectError, type ObjectRange } from './bytes/damage.ts'
import type { CommitHeader } from './header.ts'
import type { PackEntry } from './pack-table-page.ts'

/** The objects that the references of one commit lead to. */
export class PackTable {
  readonly #byNumber: ReadonlyMap<number, PackEntry>
  readonly #range: ObjectRange
  readonly #ceiling: number

  /**
   * @param own the commit itself, as its children list it
   * @param range of its header, for messages
   */
  constructor(own: PackEntry, packs: Iterable<PackEntry>, nextN: number, range: ObjectRange) {
    const byNumber = new Map<number, PackEntry>()
    for (const pack of packs) {
      if (pack.n >= nextN || pack.n === own.n || byNumber.has(pack.n)) {
        throw new DamagedObjectError(range, `its table lists pack ${pack.n} twice, or although it was never given`)
      }
      byNumber.set(pack.n, pack)
    }
    byNumber.set(own.n, own)
    this.#byNumber = byNumber
    this.#range = range
    this.#ceiling = nextN
  }

  /**
   * Where the bytes of a reference are stored.
   *
   * @throws DamagedObjectError when that is no place in an object of this commit
   */
  locate({ n, offset, length }: Pick<ChunkRef, 'n' | 'offset' | 'length'>): ObjectRange {
    const pack = this.#byNumber.get(n)
    if (pack !== undefined && pack.base + offset + length <= pack.size) {
      return { object: pack.name, offset: pack.base + offset, length }
    }
    const why =
      pack === undefined
        ? `it refers to the object ${n} of ${this.#ceiling}, which it does not list`
        : `it refers to ${length} bytes from ${offset} of ${pack.name}, which has ${pack.size}`
    throw new DamagedObjectError(this.#range, why)
  }

  get(n: number): PackEntry | undefined {
    return this.#byNumber.get(n)
  }

  values(): Iterable<PackEntry> {
    return this.#byNumber.values()
  }
}

/** What a header says of its commit as an object, in the form in which its children list it; `live` is not known. */
export function ownEntry(header: CommitHeader, name: string, base: number, size: number): PackEntry {
  return { n: header.n, name, size, base, live: 0 }
}
