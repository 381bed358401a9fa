import { closeSync, constants, fstatSync, openSync } from 'node:fs'
import { fromSystemError, NexusError, systemCode } from '@nexus/errors'
import { PathEscapeError, type TreeSlot } from '@nexus/host'

/** Flags of every open inside a tree: never follow a link that was put there meanwhile, never block on a FIFO. */
export const OPEN_SAFELY: number = constants.O_NOFOLLOW | constants.O_NONBLOCK

/** Opens the regular file of a slot for reading. `NOT_FOUND` when there is none. */
export function openToRead(slot: TreeSlot): number {
  let fd: number
  try {
    fd = openSync(slot.path, constants.O_RDONLY | OPEN_SAFELY)
  } catch (error) {
    throw failedOpen(error, 'session.read', slot.relPath)
  }
  if (fstatSync(fd).isFile()) return fd
  closeSync(fd)
  throw wrongKind(slot.relPath, 'session.read', 'is not a regular file')
}

/** Throws when something else than a regular file is at the slot. */
export function refuseSpecial({ relPath, stats }: TreeSlot, op: string): void {
  if (stats === undefined || stats.isFile()) return
  throw wrongKind(relPath, op, stats.isDirectory() ? 'is a directory' : 'is not a regular file')
}

/** The error for a path that names something else than the call is for. */
export function wrongKind(relPath: string, op: string, what: string): NexusError {
  return new NexusError('INVALID_ARGUMENT', `${JSON.stringify(relPath)} ${what}`, { op, key: relPath })
}

/** What a failed open with {@link OPEN_SAFELY} means. */
export function failedOpen(error: unknown, op: string, relPath: string): NexusError {
  const code = systemCode(error)
  if (code === 'ELOOP') return new PathEscapeError(relPath, 'was replaced by a link while it was being opened')
  if (code === 'ENXIO') return wrongKind(relPath, op, 'is not a regular file')
  return fromSystemError(error, op, relPath)
}

/** Whether an error says that there is nothing at the path. */
export function isAbsent(error: unknown): boolean {
  const code = systemCode(error instanceof NexusError ? error.cause : error)
  return code === 'ENOENT' || code === 'ENOTDIR'
}
