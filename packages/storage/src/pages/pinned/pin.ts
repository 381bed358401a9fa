import type { SyncFailpoint } from '@nexus/host'
import type { Connection } from '../../open/connection.ts'
import type { PageStep } from './page-steps.ts'
import type { LockedFiles } from './locked-files.ts'
import { isSameState, readBackfilled, readWalIndex, type WalIndex } from './wal-index.ts'

/** What a read transaction holds. */
export interface Snapshot {
  readonly index: WalIndex
  /** So many frames were in the database file when it began. */
  readonly backfilled: number
}

/**
 * Whether the database file alone is the snapshot: every frame is in it, and while the read transaction lasts no checkpoint can
 * put a later one there. Its WAL may be begun anew under it, so that no frame may be read.
 */
export function isInFile({ index, backfilled }: Snapshot): boolean {
  return backfilled === index.lastFrame
}

// Each try takes some 20 µs, so a writer would have to commit in every one of them.
const TRIES = 200

/**
 * Keeps one state of a database readable by holding a read transaction on it, and moves on to a newer one without ever letting
 * go: two read-only connections alternate. While it holds, nobody, whatever process it is, can put frames after the snapshot into
 * the file, nor begin the WAL anew while frames of the snapshot are only there.
 */
export class Pin {
  /** Holds the pin, from the first {@link adopt} on. */
  #holder: Connection
  #spare: Connection
  readonly #step: SyncFailpoint<PageStep>

  /** @param connect opens a read-only connection that waits for no lock */
  constructor(connect: () => Connection, step: SyncFailpoint<PageStep>) {
    this.#spare = connect()
    try {
      this.#holder = connect()
    } catch (error) {
      this.#spare.close()
      throw error
    }
    this.#step = step
  }

  /**
   * Holds the newest state on the spare connection, beside the one that is held already.
   *
   * @returns undefined when writers were faster than every try
   * @throws SQLite's error, `SQLITE_BUSY` above all: nothing new is held then
   */
  take({ shm }: LockedFiles): Snapshot | undefined {
    for (let tries = 0; tries < TRIES; tries++) {
      const before = readWalIndex(shm)
      this.#step('pages:index-read')
      this.#spare.exec('BEGIN')
      try {
        // BEGIN takes nothing yet: this read of a header field does.
        this.#spare.pragma('schema_version')
        this.#step('pages:begun')
        const backfilled = readBackfilled(shm)
        this.#step('pages:backfill-read')
        const after = readWalIndex(shm)
        // Equal on both sides of the moment at which the transaction saw it: that is what it saw.
        if (before !== undefined && isSameState(before, after)) {
          this.#step('pages:taken')
          return { index: before, backfilled }
        }
      } catch (error) {
        this.drop()
        throw error
      }
      this.drop()
    }
    return undefined
  }

  /** Lets go of what {@link take} held. */
  drop(): void {
    if (this.#spare.inTransaction) this.#spare.exec('ROLLBACK')
  }

  /** Lets go of the earlier state: what {@link take} held is the pin now. */
  adopt(): void {
    ;[this.#holder, this.#spare] = [this.#spare, this.#holder]
    this.drop()
    this.#step('pages:old-released')
  }

  /** Lets go of everything. Read-only connections leave WAL and `-shm` where they are. */
  close(): void {
    this.#spare.close()
    this.#holder.close()
  }
}
