import { closeSync, constants, fstatSync, ftruncateSync, openSync, unlinkSync } from 'node:fs'
import { systemCode } from '@nexus/errors'
import { type Failpoint, type TreeSlot, writeFully } from '@nexus/host'
import type { FileChange } from './file-events.ts'
import { failedOpen, OPEN_SAFELY, wrongKind } from './regular-file.ts'

/** Failpoints of an append. */
export const APPEND_FAILPOINTS: readonly string[] = ['append:measured', 'append:written']

const FILE_MODE = 0o600
const OPEN_APPEND = constants.O_WRONLY | constants.O_APPEND | OPEN_SAFELY

/**
 * Appends in one write call, and tells what that did to the file by the sizes before and after it on the same descriptor:
 * there is no lseek in Node.
 *
 * @param sync called with the descriptor once the bytes are written
 */
export async function appendRecord(
  slot: TreeSlot,
  bytes: Uint8Array,
  failpoint: Failpoint,
  sync: (fd: number, created: boolean) => Promise<void>,
): Promise<FileChange> {
  const { fd, created } = openForAppend(slot)
  try {
    const before = fstatSync(fd)
    if (!before.isFile()) throw wrongKind(slot.relPath, 'session.append', 'is not a regular file')
    await failpoint('append:measured')
    await writeOrTakeBack(fd, bytes, before.size, created ? slot : undefined)
    const sizeBytes = fstatSync(fd).size
    await failpoint('append:written')
    await sync(fd, created)
    // Another process appended, too: no offset would be true, and 0 means "treat it as rewritten".
    const offset = sizeBytes - before.size === bytes.byteLength ? before.size : 0
    return { path: slot.relPath, created, sizeBytes, offset, bytesAdded: offset === 0 ? sizeBytes : bytes.byteLength }
  } finally {
    closeSync(fd)
  }
}

/** Opens for append without following a link; tells whether this call made the file. */
function openForAppend(slot: TreeSlot): { fd: number; created: boolean } {
  for (let attempt = 0; ; attempt++) {
    try {
      return { fd: openSync(slot.path, OPEN_APPEND), created: false }
    } catch (error) {
      if (systemCode(error) !== 'ENOENT') throw failedOpen(error, 'session.append', slot.relPath)
    }
    try {
      return { fd: openSync(slot.path, OPEN_APPEND | constants.O_CREAT | constants.O_EXCL, FILE_MODE), created: true }
    } catch (error) {
      // Another process made it between the two calls, and may remove it again; it won't each time.
      if (systemCode(error) !== 'EEXIST' || attempt === 8) throw failedOpen(error, 'session.append', slot.relPath)
    }
  }
}

async function writeOrTakeBack(
  fd: number,
  bytes: Uint8Array,
  sizeBefore: number,
  created: TreeSlot | undefined,
): Promise<void> {
  const progress = { writtenBytes: 0 }
  try {
    await writeFully(fd, bytes, progress)
  } catch (error) {
    // A full disk took the front of the record. Cut it off, so that the next record starts on its own line, unless
    // somebody else appended in between: then the cut would take theirs.
    if (fstatSync(fd).size === sizeBefore + progress.writtenBytes) ftruncateSync(fd, sizeBefore)
    if (created !== undefined && fstatSync(fd).size === 0) unlinkSync(created.path)
    throw error
  }
}
