import { closeSync, constants, fstatSync, openSync, readFileSync } from 'node:fs'
import { fromSystemError, NexusError, systemCode } from '@nexus/errors'

/**
 * Reads one of the engine's own small files whole; undefined when it isn't there. Follows no link and doesn't wait for a
 * FIFO.
 *
 * @throws NexusError `PRECONDITION` for anything but a regular file, `LOCAL_IO`, `PERMISSION`
 */
export function readPlainFile(path: string): Buffer | undefined {
  let fd: number
  try {
    fd = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return undefined
    if (systemCode(error) === 'ELOOP') throw notPlain(path, error)
    throw fromSystemError(error, 'session.read', path)
  }
  try {
    if (!fstatSync(fd).isFile()) throw notPlain(path)
    return readFileSync(fd)
  } finally {
    closeSync(fd)
  }
}

function notPlain(path: string, cause?: unknown): NexusError {
  return new NexusError('PRECONDITION', `${path} is a link or another special file: move it away`, {
    op: 'session.read',
    key: path,
    cause,
  })
}
