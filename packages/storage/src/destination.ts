import { closeSync, lstatSync, mkdirSync, openSync, rmSync } from 'node:fs'
import { dirname } from 'node:path'
import { fromSystemError, NexusError, systemCode } from '@nexus/errors'

const SIDECARS = ['-journal', '-wal', '-shm']

function exists(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false }) !== undefined
}

function refuseExisting(path: string): never {
  throw new NexusError(
    'PRECONDITION',
    `A snapshot never goes onto a file that exists: ${path}. Use a fresh directory`,
    {
      op: 'storage.snapshot',
      key: path,
    },
  )
}

/**
 * Makes an empty file for a copy, and its directories. Made exclusively, so from here on the file is ours to write and to
 * delete, and nothing live can be overwritten.
 *
 * @throws NexusError `PRECONDITION` when the file, or a sidecar of its name, exists; `LOCAL_IO`, `PERMISSION` for the disk
 */
export function reserveDestination(path: string): void {
  const sidecar = SIDECARS.map((suffix) => path + suffix).find(exists)
  if (sidecar !== undefined) refuseExisting(sidecar)
  try {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
    closeSync(openSync(path, 'wx', 0o600))
  } catch (error) {
    if (systemCode(error) === 'EEXIST') refuseExisting(path)
    throw fromSystemError(error, 'storage.snapshot', path)
  }
}

/** Deletes a file that {@link reserveDestination} made, and what SQLite put beside it. */
export function discardDestination(path: string): void {
  for (const suffix of ['', ...SIDECARS]) rmSync(path + suffix, { force: true })
}
