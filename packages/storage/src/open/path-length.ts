import { NexusError } from '@nexus/errors'

// SQLite's unix layer has room for 512 bytes, of which it keeps 8 for the suffix of a sidecar.
const MAX_PATH_BYTES = 504

/** Whether SQLite can open a file of this absolute path at all. */
export function fitsSqlite(path: string): boolean {
  return Buffer.byteLength(path) <= MAX_PATH_BYTES
}

/** Refuses a path that SQLite would only answer with "unable to open database file". */
export function checkPathLength(path: string, op: string): void {
  if (fitsSqlite(path)) return
  throw new NexusError(
    'INVALID_ARGUMENT',
    `SQLite takes paths of ${MAX_PATH_BYTES} bytes at most; this is longer: ${path}`,
    {
      op,
      key: path,
    },
  )
}
