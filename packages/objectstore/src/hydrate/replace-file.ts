import { lstatSync, renameSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { NexusError } from '@nexus/errors'
import { engineTempName } from '@nexus/host'
import { quoteKey } from '../errors.ts'
import { pause } from '../transfer/waiting.ts'

/** Downloads of one object that may come out short before that is believed. */
const ATTEMPTS = 3
const LONGEST_PAUSE_MS = 400

/** Creates the file at the path it is given and resolves with the bytes it must have; with nothing when any size will do. */
export type WriteFile = (tempPath: string) => Promise<number | undefined>

/**
 * Writes a file through a temporary one beside it and renames: a failure leaves what was there, a symbolic link at the path
 * is replaced and not followed. A file that came out short is written again, twice at most. The temporary name does not
 * contain the target's, so a name of 255 bytes works; it is one of the engine's own, which never cross the seam, should a
 * kill leave it behind.
 *
 * @param key the object the bytes come from, for errors
 * @returns the bytes written
 * @throws NexusError `CORRUPT` when it came out short by the same bytes each time; `UNAVAILABLE` when it came out with
 *   another wrong size: transfers are cut, or the object was replaced meanwhile
 */
export async function replaceFile(
  path: string,
  key: string,
  write: WriteFile,
  { signal }: { signal?: AbortSignal | undefined } = {},
): Promise<number> {
  const tempPath = join(dirname(path), engineTempName())
  try {
    const size = await writeWhole(tempPath, key, write, signal)
    renameSync(tempPath, path)
    return size
  } catch (error) {
    rmSync(tempPath, { force: true })
    throw error
  }
}

/** Writes a new file, again when it comes out short; errors as {@link replaceFile}. */
export async function writeWhole(
  tempPath: string,
  key: string,
  write: WriteFile,
  signal: AbortSignal | undefined,
): Promise<number> {
  const sizes = new Set<number>()
  for (let attempt = 1; ; attempt++) {
    const expected = await write(tempPath)
    const { size } = lstatSync(tempPath)
    if (expected === undefined || size === expected) return size
    sizes.add(size)
    if (size > expected || attempt === ATTEMPTS) throw wrongSize(key, size, expected, sizes.size === 1)
    rmSync(tempPath)
    await pause(Math.random() * LONGEST_PAUSE_MS, signal)
  }
}

function wrongSize(key: string, size: number, expected: number, isConstant: boolean): NexusError {
  const options = { op: 'objectstore.get', key }
  const found = `download of ${quoteKey(key)} has ${size} bytes`
  if (size > expected) {
    const way =
      'replaced since it was listed; a download resolves with the size that the store declared for what it sent'
    return new NexusError('UNAVAILABLE', `${found}, more than the ${expected} expected: ${way}`, options)
  }
  if (!isConstant) return new NexusError('UNAVAILABLE', `${found} of ${expected}: each attempt is cut short`, options)
  const message = `${found} of ${expected}, the same each of ${ATTEMPTS} times: the stored object is not whole`
  return new NexusError('CORRUPT', message, options)
}
