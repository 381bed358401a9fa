import { closeSync, constants, openSync, read, readSync } from 'node:fs'
import { promisify } from 'node:util'
import { NexusError, systemCode } from '@nexus/errors'
import { Slices, type SyncFailpoint } from '@nexus/host'
import { areLocked, type LockedFiles } from './locked-files.ts'
import type { PageImage } from './page-image.ts'
import type { PageStep } from './page-steps.ts'
import { FRAME_HEADER_BYTES, frameAt, isFrameOf, WalMismatchError } from './wal-frames.ts'
import type { WalIndex } from './wal-index.ts'

const readAsync = promisify(read)
// What was just written is in memory, and read faster here than a thread is woken.
const HERE_BYTES = 64 * 1024
/** Where SQLite's locks are. It never writes the page that holds this byte, and reads it as zeros. */
const LOCK_BYTE = 0x4000_0000

/** A pinned state, as far as reading its pages needs it. */
export interface PinnedState {
  readonly path: string
  readonly files: LockedFiles
  readonly index: WalIndex
  readonly pageSize: number
  readonly pageCount: number
  /** The newest frame of each page that isn't in the database file yet, or was not when the pin was taken. */
  readonly frames: ReadonlyMap<number, number>
  readonly step: SyncFailpoint<PageStep>
}

/** Opens the WAL, on which SQLite has no locks; undefined when there is none. */
export function openWal(path: string): number | undefined {
  try {
    return openSync(`${path}-wal`, constants.O_RDONLY | constants.O_NOFOLLOW)
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return undefined
    throw error
  }
}

/**
 * Reads the pages of a pinned state where they lie: the newest frame of each, else the database file, through the descriptors
 * that SQLite has open. Long reads run in threads, which share descriptors with this one and open and close none.
 */
export class PinnedImage implements PageImage {
  readonly pageSize: number
  readonly pageCount: number
  readonly #state: PinnedState
  readonly #walFd: number | undefined
  readonly #slices = new Slices()

  /** @throws WalMismatchError when frames are needed and there is no WAL */
  constructor(state: PinnedState) {
    this.#state = state
    this.pageSize = state.pageSize
    this.pageCount = state.pageCount
    if (state.frames.size === 0) return
    this.#walFd = openWal(state.path)
    if (this.#walFd === undefined) throw new WalMismatchError(state.path, 'it was removed')
  }

  async read(into: Buffer, offsetBytes: number): Promise<void> {
    const { path, files, step } = this.#state
    await this.#slices.rest()
    step('pages:before-read')
    // What lies behind the end of the file was never written, and reads as zeros.
    into.fill(0, await readFully(files.database, into, offsetBytes))
    const lockPage = Math.floor(LOCK_BYTE / this.pageSize) + 1
    this.#place(into, offsetBytes, lockPage, Buffer.alloc(this.pageSize))
    for (const run of this.#framesOf(offsetBytes, into.length)) {
      const frameBytes = FRAME_HEADER_BYTES + this.pageSize
      const bytes = Buffer.alloc(run.pages.length * frameBytes)
      await readFully(this.#walFd as number, bytes, frameAt(run.frame, this.pageSize))
      for (const [index, page] of run.pages.entries()) {
        const framed = bytes.subarray(index * frameBytes, (index + 1) * frameBytes)
        if (!isFrameOf(framed, page, this.#state.index))
          throw new WalMismatchError(path, `frame ${run.frame + index} is not of page ${page} any more`)
        this.#place(into, offsetBytes, page, framed.subarray(FRAME_HEADER_BYTES))
      }
    }
    step('pages:after-read')
    if (!areLocked(files, path)) {
      const message = `This process lost its locks on ${path} while it was read: something in it closed the file outside SQLite`
      throw new NexusError('UNAVAILABLE', message, { op: 'storage.capture', key: path, retryable: true })
    }
  }

  close(): void {
    if (this.#walFd !== undefined) closeSync(this.#walFd)
  }

  /** The part of a page that a range covers, if any. */
  #place(into: Buffer, offsetBytes: number, page: number, bytes: Buffer): void {
    const at = (page - 1) * this.pageSize - offsetBytes
    if (at < into.length && at > -this.pageSize) bytes.copy(into, Math.max(at, 0), Math.max(-at, 0))
  }

  /** The frames of a range, those that follow each other in the WAL together. */
  #framesOf(offsetBytes: number, lengthBytes: number): { frame: number; pages: number[] }[] {
    const found: { frame: number; page: number }[] = []
    const last = Math.ceil((offsetBytes + lengthBytes) / this.pageSize)
    for (let page = Math.floor(offsetBytes / this.pageSize) + 1; page <= last; page++) {
      const frame = this.#state.frames.get(page)
      if (frame !== undefined) found.push({ frame, page })
    }
    const runs: { frame: number; pages: number[] }[] = []
    for (const { frame, page } of found.toSorted((a, b) => a.frame - b.frame)) {
      const run = runs.at(-1)
      if (run !== undefined && run.frame + run.pages.length === frame) run.pages.push(page)
      else runs.push({ frame, pages: [page] })
    }
    return runs
  }
}

/** Reads as much as there is; the bytes that were read. */
async function readFully(fd: number, into: Buffer, position: number): Promise<number> {
  let filled = 0
  while (filled < into.length) {
    const [left, at] = [into.length - filled, position + filled]
    const bytes =
      into.length <= HERE_BYTES
        ? readSync(fd, into, filled, left, at)
        : (await readAsync(fd, into, filled, left, at)).bytesRead
    if (bytes === 0) break
    filled += bytes
  }
  return filled
}
