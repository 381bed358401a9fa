import { NexusError } from '@nexus/errors'
import { fromSqliteError } from '../open/sqlite-error.ts'
import type { PageImage } from './pinned/page-image.ts'
import type { PageRange } from './pinned/page-ranges.ts'

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
 * @see docs/concepts/page-capture.md
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
   * Reads bytes of the image, across pages; a range is cut at the end of the image. Where there is much to read, ask for some
   * hundred KiB at a time: reads above 64 KiB don't run on the calling thread.
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
  /** Called once, when it is released and no read of it is on its way any more. */
  readonly onEnd: () => void
}

/** Holds an image until it is released. */
export class HeldInstant implements DatabaseInstant {
  readonly pluginId: string
  readonly livePath: string
  readonly id: string
  readonly kind: Difference['kind']
  readonly changed: readonly PageRange[]
  readonly pageSize: number
  readonly pageCount: number
  /** Resolves after `onEnd`. */
  readonly ended: Promise<void>
  readonly #parts: InstantParts
  #end!: () => void
  #reading = 0
  #isReleased = false

  constructor(parts: InstantParts) {
    const { pluginId, livePath, id, difference, image } = parts
    this.pluginId = pluginId
    this.livePath = livePath
    this.id = id
    this.kind = difference.kind
    this.changed = difference.changed
    this.pageSize = image.pageSize
    this.pageCount = image.pageCount
    this.#parts = parts
    this.ended = new Promise((resolve) => {
      this.#end = resolve
    })
  }

  get isReleased(): boolean {
    return this.#isReleased
  }

  async read(offsetBytes: number, lengthBytes: number): Promise<Buffer> {
    const { livePath } = this
    if (this.#isReleased) {
      throw new NexusError('CLOSED', `The instant of ${livePath} was released`, {
        op: 'storage.capture',
        key: livePath,
      })
    }
    const sizeBytes = this.pageSize * this.pageCount
    const into = Buffer.alloc(Math.max(0, Math.min(lengthBytes, sizeBytes - offsetBytes)))
    this.#reading++
    try {
      if (into.length > 0) await this.#parts.image.read(into, offsetBytes)
      return into
    } catch (error) {
      throw fromSqliteError(error, 'storage.capture', `Reading the database at ${livePath}`, livePath)
    } finally {
      this.#reading--
      this.#endWhenDone()
    }
  }

  distrust(pages: readonly PageRange[]): void {
    this.#parts.onDistrust(pages)
  }

  release(): void {
    if (this.#isReleased) return
    this.#isReleased = true
    this.#endWhenDone()
  }

  // A descriptor that is closed under a read may be another file's before the read begins.
  #endWhenDone(): void {
    if (!this.#isReleased || this.#reading > 0) return
    this.#parts.image.close()
    this.#parts.onEnd()
    this.#end()
  }
}
