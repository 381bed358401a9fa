import { checkpointConnection } from '../../copy/checkpoint.ts'
import { openWithoutWaiting } from '../../open/connection.ts'
import type { Place } from '../../open/place.ts'
import type { PageRange } from './page-ranges.ts'
import type { PinnedDatabase } from './pinned-database.ts'

/**
 * Moves the last frames of a WAL into the file, and the pin on, while nobody can commit: writers that never pause would let the
 * WAL grow without end. All in one go, because a plugin that waits for the write lock blocks this thread, which alone can give it
 * back.
 *
 * @returns what {@link PinnedDatabase.advance} does
 * @throws SQLite's error, `SQLITE_BUSY` while somebody writes
 */
export function overtakeWriters(place: Place, pinned: PinnedDatabase): readonly PageRange[] | undefined {
  const writer = openWithoutWaiting(place)
  const checkpoints = openWithoutWaiting(place)
  try {
    writer.exec('BEGIN IMMEDIATE')
    checkpointConnection(checkpoints, 0, true)
    const moving = pinned.advance()
    for (;;) {
      const step = moving.next()
      if (step.done === true) return step.value
    }
  } finally {
    checkpoints.close()
    // Ends its transaction.
    writer.close()
  }
}
