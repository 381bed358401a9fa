import { NexusError } from '@nexus/errors'
import type { PageImage } from './page-image.ts'
import type { PageRange } from './page-ranges.ts'

/** What is different between two instants. */
export interface Difference {
  /**
   * Against the instant that the capture was asked to compare with: `nothing` is different, the pages of `changed` are, or
   * that instant isn't known any more, and everything is to be read (`full`).
   */
  readonly kind: 'nothing' | 'changed' | 'full'
  /** Ascending, disjoint. Pages beyond the page count have vanished. Every page when `kind` is `full`. */
  readonly changed: readonly PageRange[]
}

/**
 * A database as it was at one instant, readable for as long as it is held: the file that SQLite would leave if it wrote
 * everything into it that was committed then, in WAL mode.
 *
 * @see docs/concepts/durability.md
 */
export interface DatabaseInstant extends Difference {
  readonly pluginId: string
  readonly livePath: string
  /** Names this instant for the `since` of a later capture by the same manager. */
  readonly id: string
  /** In bytes; 0 for a database without pages. */
  readonly pageSize: number
  readonly pageCount: number
  /**
   * Reads bytes of the image, across pages; a range is cut at the end of the image.
   *
   * @throws NexusError `CLOSED` after {@link release}; `UNAVAILABLE` when the instant could not be held, so that the capture
   * must be tried again; `LOCAL_IO`, `CORRUPT`
   */
  read(offsetBytes: number, lengthBytes: number): Promise<Buffer>
  /** Says that pages which were not in `changed` are different: a defect, logged as an error. The next capture reads everything. */
  distrust(pages: readonly PageRange[]): void
  /** Lets the database go on, so that its WAL can be emptied. A second call does nothing. */
  release(): void
}

/** What an instant is made of. */
export interface InstantParts {
  readonly pluginId: string
  readonly livePath: string
  readonly id: string
  readonly difference: Difference
  readonly image: PageImage
  readonly onDistrust: (pages: readonly PageRange[]) => void
  readonly onRelease: () => void
}

/** Holds an image until it is released. */
export class HeldInstant implements DatabaseInstant {
  readonly #parts: InstantParts
  #released = false

  constructor(parts: InstantParts) {
    this.#parts = parts
  }

  get pluginId(): string {
    return this.#parts.pluginId
  }

  get livePath(): string {
    return this.#parts.livePath
  }

  get id(): string {
    return this.#parts.id
  }

  get kind(): Difference['kind'] {
    return this.#parts.difference.kind
  }

  get changed(): readonly PageRange[] {
    return this.#parts.difference.changed
  }

  get pageSize(): number {
    return this.#parts.image.pageSize
  }

  get pageCount(): number {
    return this.#parts.image.pageCount
  }

  async read(offsetBytes: number, lengthBytes: number): Promise<Buffer> {
    const { image, livePath } = this.#parts
    if (this.#released) {
      throw new NexusError('CLOSED', `The instant of ${livePath} was released`, {
        op: 'storage.capture',
        key: livePath,
      })
    }
    const sizeBytes = image.pageSize * image.pageCount
    const into = Buffer.alloc(Math.max(0, Math.min(lengthBytes, sizeBytes - offsetBytes)))
    if (into.length > 0) await image.read(into, offsetBytes)
    return into
  }

  distrust(pages: readonly PageRange[]): void {
    this.#parts.onDistrust(pages)
  }

  release(): void {
    if (this.#released) return
    this.#released = true
    this.#parts.image.close()
    this.#parts.onRelease()
  }
}
