import { NexusError, systemCode } from '@nexus/errors'
import { NOT_A_FILE } from '../files/file-digest.ts'

// EINVAL: readlink of what was a link a moment ago.
const GONE = new Set(['ENOENT', 'ENOTDIR', 'ELOOP', 'EINVAL', 'EISDIR', 'ENXIO', NOT_A_FILE])
const UNREADABLE = new Set(['EACCES', 'EPERM', 'ENAMETOOLONG', 'EOVERFLOW'])

/** What a failed look at one file of a tree means for it. */
export type FileFault =
  /** Something else is at its place, or nothing. */
  | { kind: 'gone' }
  /** It is there, and no snapshot can hold it until somebody changes that. */
  | { kind: 'unreadable'; why: string }

/**
 * Tells the faults of a file from those of the machine.
 *
 * A process that has run out of descriptors or memory, or a disk that fails, says nothing of the file: left out of a commit,
 * it would be an old file among new ones, or none.
 *
 * @throws NexusError `LOCAL_IO`, retryable, naming the path, for everything that is no fault of the file
 */
export function fileFault(error: unknown, op: string, path: string): FileFault {
  const code = systemCode(error)
  if (code === undefined || error instanceof NexusError) throw error
  if (GONE.has(code)) return { kind: 'gone' }
  if (UNREADABLE.has(code)) return { kind: 'unreadable', why: `it can't be read (${code})` }
  const message = `${path} could not be taken (${code}): the machine ran out of something or its disk fails. Nothing was committed`
  throw new NexusError('LOCAL_IO', message, { op, key: path, retryable: true, cause: error })
}
