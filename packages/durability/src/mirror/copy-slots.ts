import { closeSync, openSync } from 'node:fs'
import { join } from 'node:path'
import { fromSystemError } from '@nexus/errors'

/** A file of our own that copies are written into, one after the other. */
export interface CopySlot {
  path: string
  fd: number
}

/**
 * Files for private copies, used again and again: making and removing one per copy would cost as much as storing it. They
 * lie in a directory that is removed as a whole.
 */
export class CopySlots {
  readonly #dir: string
  readonly #idle: CopySlot[] = []
  #made = 0

  constructor(dir: string) {
    this.#dir = dir
  }

  take(): CopySlot {
    const idle = this.#idle.pop()
    if (idle !== undefined) return idle
    const path = join(this.#dir, `copy-${this.#made++}`)
    try {
      return { path, fd: openSync(path, 'wx', 0o600) }
    } catch (error) {
      throw fromSystemError(error, 'snapshot.copy', path)
    }
  }

  /** @param isFree false: somebody may still be reading the file, so nothing is written into it any more */
  giveBack(slot: CopySlot, isFree: boolean): void {
    if (isFree) this.#idle.push(slot)
    else closeSync(slot.fd)
  }

  /** Everything that was taken has been given back. */
  close(): void {
    for (const { fd } of this.#idle.splice(0)) closeSync(fd)
  }
}
