/** Objects remembered, about 150 bytes each. */
const LIMIT = 20_000

/** What tells one content of a path from the next. */
export interface FileVersion {
  ino: bigint
  mtimeNs: bigint
}

/** The files that this worker itself has made durable under their names, so that it need not sync them a second time. */
export class DurableObjects {
  readonly #versions = new Map<string, FileVersion>()

  has(path: string, { ino, mtimeNs }: FileVersion): boolean {
    const known = this.#versions.get(path)
    return known?.ino === ino && known.mtimeNs === mtimeNs
  }

  /** After the file and its directory were synced. */
  add(path: string, { ino, mtimeNs }: FileVersion): void {
    this.#versions.delete(path)
    this.#versions.set(path, { ino, mtimeNs })
    if (this.#versions.size <= LIMIT) return
    const [oldest] = this.#versions.keys()
    if (oldest !== undefined) this.#versions.delete(oldest)
  }
}
