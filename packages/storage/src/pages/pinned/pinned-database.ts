import { closeSync, fstatSync, readSync } from 'node:fs'
import type { SyncFailpoint } from '@nexus/host'
import { sqliteError } from '../../open/sqlite-error.ts'
import { areLocked, type LockedFiles } from './locked-files.ts'
import { pageSizeIn } from './page-image.ts'
import { rangesBetween, rangesOf, unionOf, type PageRange } from './page-ranges.ts'
import type { PageStep } from './page-steps.ts'
import { isInFile, type Pin, type Snapshot } from './pin.ts'
import { openWal, PinnedImage } from './pinned-image.ts'
import { readFrames, WalMismatchError } from './wal-frames.ts'
import { isSameState, readWalIndex, restartsBetween, type Checksum, type WalIndex } from './wal-index.ts'

interface State extends Snapshot {
  readonly pageSize: number
  readonly pageCount: number
  /** The newest frame of each page that the file lacks; empty when it lacks none. */
  readonly frames: Map<number, number>
}

interface Look {
  readonly state: State
  /** Against the state before; undefined when that isn't known. */
  readonly changed: readonly PageRange[] | undefined
}

/**
 * A WAL database with a pin on it: knows every page that changes from one pinned state to the next, and reads the pages of the
 * present one. Costs four descriptors.
 */
export class PinnedDatabase {
  readonly #path: string
  readonly #files: LockedFiles
  readonly #pin: Pin
  readonly #step: SyncFailpoint<PageStep>
  #state: State | undefined

  /** Takes over two connections' worth of `pin`. Nothing is held before the first {@link advance}. */
  constructor(path: string, files: LockedFiles, pin: Pin, step: SyncFailpoint<PageStep>) {
    this.#path = path
    this.#files = files
    this.#pin = pin
    this.#step = step
  }

  /** Whether this process still has the locks that make the pin one. */
  get isLocked(): boolean {
    return areLocked(this.#files, this.#path)
  }

  /** What a reader that begins now would see; undefined while a writer is in the middle of saying so. */
  get newest(): WalIndex | undefined {
    return readWalIndex(this.#files.shm)
  }

  /** The state that is pinned. */
  get index(): WalIndex {
    return this.#present.index
  }

  /** So many frames of it were in the file when it was pinned. */
  get backfilled(): number {
    return this.#present.backfilled
  }

  get pageSize(): number {
    return this.#present.pageSize
  }

  get pageCount(): number {
    return this.#present.pageCount
  }

  /** Whether nothing was committed since; false before the first {@link advance}. */
  get isAtNewest(): boolean {
    return this.#state !== undefined && isSameState(this.newest, this.#state.index)
  }

  /** Whether nothing was committed since, and nothing is left to do: the next writer can begin the WAL anew. */
  get isSettled(): boolean {
    return this.isAtNewest && isInFile(this.#present)
  }

  /**
   * Moves the pin on to the newest state. Yields where others may run.
   *
   * @returns the pages that changed since the state before; undefined when that isn't known
   * @throws SQLite's error, `SQLITE_BUSY` above all, or WalMismatchError: the pin is where it was
   */
  *advance(): Generator<void, readonly PageRange[] | undefined> {
    const snapshot = this.#pin.take(this.#files)
    if (snapshot === undefined) throw sqliteError('SQLITE_BUSY', 'writers commit faster than a read can begin')
    let look: Look
    try {
      look = yield* this.#lookAt(snapshot)
    } catch (error) {
      this.#pin.drop()
      throw error
    }
    // Only now: until here the earlier pin kept the frames in place from which the changes were read.
    this.#pin.adopt()
    this.#state = look.state
    return look.changed
  }

  /** The pages of the pinned state; valid until the next {@link advance}. */
  image(): PinnedImage {
    const { index, pageSize, pageCount, frames } = this.#present
    const [path, files, step] = [this.#path, this.#files, this.#step]
    return new PinnedImage({ path, files, step, index, pageSize, pageCount, frames })
  }

  close(): void {
    this.#pin.close()
  }

  get #present(): State {
    if (this.#state === undefined) throw new Error('nothing is pinned yet')
    return this.#state
  }

  *#lookAt(snapshot: Snapshot): Generator<void, Look> {
    const { index } = snapshot
    const before = this.#state
    const { pageSize, pageCount } = this.#sizeOf(index)
    const isSameGeneration = before !== undefined && before.index.salts.equals(index.salts)
    const isKnown = before !== undefined && before.pageSize === pageSize && isTraceable(before, index)
    const found: { page: number; frame: number }[] = []
    if (isKnown || !isInFile(snapshot)) {
      const from = isSameGeneration ? resumeAfter(before.index) : undefined
      yield* this.#readWal(index, from, (page, frame) => void found.push({ page, frame }))
    }
    const frames = isSameGeneration && !isInFile(snapshot) ? before.frames : new Map<number, number>()
    // Nothing fails from here on, so what is known of a long WAL needn't be copied.
    if (!isInFile(snapshot)) for (const { page, frame } of found) frames.set(page, frame)
    const state = { ...snapshot, pageSize, pageCount, frames }
    if (!isKnown) return { state, changed: undefined }
    const changed = rangesOf(found.map(({ page }) => page))
    return { state, changed: unionOf([changed, rangesBetween(before.pageCount, pageCount)]) }
  }

  *#readWal(
    index: WalIndex,
    after: { frame: number; checksum: Checksum } | undefined,
    onFrame: (page: number, frame: number) => void,
  ): Generator<void, void> {
    if (index.lastFrame === (after?.frame ?? 0)) return
    const fd = openWal(this.#path)
    if (fd === undefined) throw new WalMismatchError(this.#path, 'it was removed')
    try {
      for (const _ of readFrames({ fd, path: this.#path, index, after }, onFrame)) {
        this.#step('pages:frames-read')
        yield
      }
    } finally {
      closeSync(fd)
    }
  }

  // An index without frames may not know; then the file does, which can't change under the pin.
  #sizeOf(index: WalIndex): { pageSize: number; pageCount: number } {
    const { database } = this.#files
    let { pageSize, pageCount } = index
    if (pageSize === 0) {
      const head = Buffer.alloc(100)
      pageSize = pageSizeIn(head.subarray(0, readSync(database, head, 0, head.length, 0)))
    }
    if (pageCount === 0 && pageSize > 0) pageCount = Math.ceil(fstatSync(database).size / pageSize)
    return { pageSize, pageCount }
  }
}

/**
 * Whether the WAL that is there now holds every change since a pinned state. Of the same generation it does. It can have been
 * begun anew only when the pin stood on a WAL that was in the file, and then none of the new one could be moved there, so that it
 * happened once. The first frame of an empty WAL may come with salts that tell nothing about the ones before.
 */
function isTraceable(before: State, index: WalIndex): boolean {
  if (before.index.salts.equals(index.salts) || before.index.lastFrame === 0) return true
  return isInFile(before) && restartsBetween(before.index, index) === 1
}

function resumeAfter({ lastFrame, checksum }: WalIndex): { frame: number; checksum: Checksum } | undefined {
  return lastFrame === 0 ? undefined : { frame: lastFrame, checksum }
}
