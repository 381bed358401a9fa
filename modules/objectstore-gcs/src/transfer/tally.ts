import type { OpOptions } from '@nexus/objectstore'

/** The progress of one object, whose totals only grow although attempts begin again. */
export class Tally {
  readonly #sizeBytes: number
  readonly #onProgress: OpOptions['onProgress']
  #at = 0
  #most = 0

  constructor(sizeBytes: number, onProgress: OpOptions['onProgress']) {
    this.#sizeBytes = sizeBytes
    this.#onProgress = onProgress
  }

  /** An attempt begins at this byte. */
  from(offset: number): void {
    this.#at = offset
  }

  /** It moved so many bytes more. */
  moved(bytes: number): void {
    this.#at += bytes
    if (this.#at <= this.#most) return
    this.#most = this.#at
    this.#onProgress?.({ objects: 0, bytes: this.#most })
  }

  /** The object is whole. */
  finished(): void {
    this.#onProgress?.({ objects: 1, bytes: this.#sizeBytes })
  }
}
