import { unionOf, type PageRange } from './pinned/page-ranges.ts'

const MAX_ENTRIES = 64

interface Entry {
  readonly id: string
  /** Against the entry before. */
  readonly changed: readonly PageRange[]
}

/** Which pages changed from one instant to the next, for as long as a later capture may ask. */
export class ChangeLog {
  #entries: Entry[] = []
  #pending: readonly PageRange[] = []

  /** Pages that changed after the latest instant. */
  note(changed: readonly PageRange[]): void {
    if (changed.length > 0) this.#pending = unionOf([this.#pending, changed])
  }

  /** Forgets everything: nothing is known of what changed since any instant. */
  forget(): void {
    this.#entries = []
    this.#pending = []
  }

  /** The id of the present state: that of the latest instant while nothing has changed since, else a new one. */
  name(newId: () => string): string {
    const latest = this.#entries.at(-1)
    if (latest !== undefined && this.#pending.length === 0) return latest.id
    const id = newId()
    this.#entries.push({ id, changed: this.#pending })
    this.#pending = []
    if (this.#entries.length > MAX_ENTRIES) this.#entries.shift()
    return id
  }

  /** Whether the present state is the latest instant. */
  get isAtLatest(): boolean {
    return this.#entries.length > 0 && this.#pending.length === 0
  }

  /** The pages that changed from an instant to the latest one; undefined when that isn't known. */
  since(id: string | undefined): PageRange[] | undefined {
    const from = this.#entries.findIndex((entry) => entry.id === id)
    return from === -1 ? undefined : unionOf(this.#entries.slice(from + 1).map(({ changed }) => changed))
  }
}
