import { randomBytes } from 'node:crypto'
import { lstatSync, renameSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { NexusError } from '@nexus/errors'
import { quoteKey } from '../errors.ts'

// One random base per thread and a counter: a call for random bytes per file costs more than opening it.
const TEMP_BASE = randomBytes(8).toString('hex')
let tempCount = 0

/** A name for a temporary file or directory, unique in its directory: short, and recognised by the engine as its own. */
export function tempName(): string {
  return `.nexus-tmp-${TEMP_BASE}${(tempCount++).toString(16)}`
}

/**
 * Writes a file through a temporary one beside it and renames: a failure leaves what was there, a symbolic link at the path
 * is replaced and not followed. The temporary name is short and does not contain the target's, so a name of 255 bytes
 * works; it is one of the engine's own, which never cross the seam, should a kill leave it behind.
 *
 * @param key the object the bytes come from, for errors
 * @param write creates the file at the path it is given and resolves with the bytes it must have, or with nothing when any
 *   size will do
 * @returns the bytes written
 * @throws NexusError `UNAVAILABLE` when the file came out with another size: the transfer was cut short
 */
export async function replaceFile(
  path: string,
  key: string,
  write: (tempPath: string) => Promise<number | undefined>,
): Promise<number> {
  const tempPath = join(dirname(path), tempName())
  try {
    const expected = await write(tempPath)
    const { size } = lstatSync(tempPath)
    if (expected !== undefined && size !== expected) {
      const message = `download of ${quoteKey(key)} was cut: ${size} bytes arrived of ${expected}`
      throw new NexusError('UNAVAILABLE', message, { op: 'objectstore.get', key })
    }
    renameSync(tempPath, path)
    return size
  } catch (error) {
    rmSync(tempPath, { force: true })
    throw error
  }
}
