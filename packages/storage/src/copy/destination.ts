import { closeSync, lstatSync, mkdirSync, openSync, rmSync } from 'node:fs'
import { dirname } from 'node:path'
import { NexusError, systemCode } from '@nexus/errors'
import { checkPathLength } from '../open/path-length.ts'
import { removeSidecars, SIDECAR_SUFFIXES } from '../open/sidecars.ts'
import { explainSystemError } from '../open/sqlite-error.ts'

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
 * @throws NexusError `INVALID_ARGUMENT` for a path that SQLite can't open; `PRECONDITION` when the file, or a sidecar of its name, exists; `LOCAL_IO`, `PERMISSION` for the disk
 */
export function reserveDestination(path: string): void {
  checkPathLength(path, 'storage.snapshot')
  // better-sqlite3 trims file names: the copy would land under another one.
  if (path !== path.trim()) {
    throw new NexusError('INVALID_ARGUMENT', `A snapshot's name can't end with white space: ${JSON.stringify(path)}`, {
      op: 'storage.snapshot',
      key: path,
    })
  }
  const sidecar = SIDECAR_SUFFIXES.map((suffix) => path + suffix).find(exists)
  if (sidecar !== undefined) refuseExisting(sidecar)
  try {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
    closeSync(openSync(path, 'wx', 0o600))
  } catch (error) {
    if (systemCode(error) === 'EEXIST') refuseExisting(path)
    throw explainSystemError(error, 'storage.snapshot', path)
  }
}

/** Deletes a file that {@link reserveDestination} made, and what SQLite put beside it. */
export function discardDestination(path: string): void {
  rmSync(path, { force: true })
  removeSidecars(path)
}
