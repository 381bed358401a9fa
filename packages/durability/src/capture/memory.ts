import { isRacy, sameFileStat, type FileStat } from '../tree/tree-stat.ts'

/**
 * What one run remembers between its snapshots of one session. Losing it costs time, and the one thing it knows that the
 * store can't tell: which objects a snapshot that failed may have overwritten.
 */
export class SnapshotMemory {
  readonly #digests = new Map<string, { stat: FileStat; sha256: string }>()
  readonly #unsettled = new Set<string>()
  readonly #told = new Set<string>()

  /** The digest of a file that never changes, when nothing about it has changed since it was taken. */
  digestOf(path: string, stat: FileStat): string | undefined {
    const known = this.#digests.get(path)
    return known !== undefined && sameFileStat(known.stat, stat) ? known.sha256 : undefined
  }

  /** Keeps a digest, unless the file changed so lately that its stat wouldn't show the next change. */
  remember(path: string, stat: FileStat, sha256: string): void {
    if (!isRacy(stat)) this.#digests.set(path, { stat, sha256 })
  }

  /** An object is about to be put: until a commit, what the store holds there is anybody's guess. */
  noteUpload(path: string): void {
    this.#unsettled.add(path)
  }

  /** The put came to nothing, and the store holds what it held before. */
  noteNothingStored(path: string): void {
    this.#unsettled.delete(path)
  }

  /** Whether a snapshot that didn't end in a commit may have put something there. */
  isUnsettled(path: string): boolean {
    return this.#unsettled.has(path)
  }

  /** Every path of which {@link isUnsettled} is true. */
  get unsettled(): string[] {
    return [...this.#unsettled]
  }

  /** A snapshot was committed: everything it names is as it says. */
  noteCommit(): void {
    this.#unsettled.clear()
  }

  /** True the first time a run asks about this: a warning at every turn would drown the others. */
  isNews(what: string): boolean {
    if (this.#told.has(what)) return false
    this.#told.add(what)
    return true
  }
}
