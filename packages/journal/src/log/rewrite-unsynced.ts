import type { FileState } from './durable-log.ts'
import type { Failpoint } from '../files/failpoints.ts'
import { TEMP_PREFIX } from '../format/format.ts'
import { copyRange, removeQuietly, syncDir, syncFile, writeFully, type JournalFs } from '../files/journal-fs.ts'
import type { WrittenText } from './pending-lines.ts'

export interface UnsyncedFile {
  fs: JournalFs
  dir: string
  path: string
  failpoint: Failpoint
  /** The file whose sync failed. */
  fd: number
  /** Bytes at its start that are still read from it. */
  keepBytes: number
  /** The lines behind those, from memory. */
  texts: readonly WrittenText[]
  lastSeq: number
}

/**
 * Writes the file again under a temporary name, syncs it and gives it the name of the old one. The old file is not
 * trusted beyond `keepBytes`: after a failed sync its newest pages may be gone although they still read well.
 */
export async function rewriteUnsynced(file: UnsyncedFile): Promise<FileState> {
  const { fs, failpoint } = file
  const temp = `${file.dir}/${TEMP_PREFIX}rewrite`
  removeQuietly(fs, temp)
  failpoint('rewrite:begin')
  const fd = fs.openSync(temp, 'ax+', 0o600)
  try {
    await copyRange(fs, file.fd, fd, 0, file.keepBytes)
    let sizeBytes = file.keepBytes
    for (const { text } of file.texts) {
      const bytes = Buffer.from(text)
      writeFully(fs, fd, bytes)
      sizeBytes += bytes.length
    }
    failpoint('rewrite:copied')
    await syncFile(fs, fd)
    failpoint('rewrite:synced')
    fs.renameSync(temp, file.path)
    failpoint('rewrite:renamed')
    await syncDir(fs, file.dir)
    return { fd, sizeBytes, syncedSeq: file.lastSeq }
  } catch (error) {
    fs.closeSync(fd)
    removeQuietly(fs, temp)
    throw error
  }
}
