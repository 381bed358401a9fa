import { readSync } from 'node:fs'

/** A file of blank lines that is longer than this was not made by a crash. */
export const LOOK_BYTES: number = 64 * 1024

/** A file that a crash of the host's file system emptied, while it was being replaced, may be left with blank lines. */
export function holdsText(fd: number): boolean {
  const bytes = Buffer.alloc(LOOK_BYTES)
  const length = readSync(fd, bytes, 0, LOOK_BYTES, 0)
  return length === LOOK_BYTES || bytes.subarray(0, length).toString('latin1').trim() !== ''
}
