import { closeSync, readFileSync } from 'node:fs'
import { fromSystemError, NexusError, systemCode } from '@nexus/errors'
import { NOT_A_FILE, openRegular } from './file-digest.ts'

/**
 * Reads one of the engine's own small files whole; undefined when it isn't there. Follows no link and doesn't wait for a
 * FIFO.
 *
 * @throws NexusError `PRECONDITION` for anything but a regular file, `LOCAL_IO`, `PERMISSION`
 */
export function readPlainFile(path: string): Buffer | undefined {
  let fd: number
  try {
    fd = openRegular(path).fd
  } catch (error) {
    const code = systemCode(error)
    if (code === 'ENOENT') return undefined
    throw code === 'ELOOP' || code === NOT_A_FILE ? notPlain(path, error) : fromSystemError(error, 'session.read', path)
  }
  try {
    return readFileSync(fd)
  } finally {
    closeSync(fd)
  }
}

function notPlain(path: string, cause: unknown): NexusError {
  return new NexusError('PRECONDITION', `${path} is a link or another special file: move it away`, {
    op: 'session.read',
    key: path,
    cause,
  })
}
