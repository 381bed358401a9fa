import type { BucketContext } from './bucket-context.ts'
import type { Call } from '../call.ts'
import { copyBytes, openLocalSource, reportingChunks } from './copy-file.ts'
import type { TempFile } from '../disk/temp-directory.ts'

/** A temp file that holds the whole object, synced and closed. */
export interface StoredTemp extends TempFile {
  /** Tells whether a name still, or already, leads to it. */
  ino: bigint
  mtimeNs: bigint
  sizeBytes: number
}

/** Writes the local file into a new temp file and syncs it. Nothing is left behind on failure. */
export async function writeTemp(context: BucketContext, localPath: string, call: Call): Promise<StoredTemp> {
  const { fs, temps, durable, failpoint } = context
  call.signal.throwIfAborted()
  const source = openLocalSource(fs, localPath)
  try {
    const temp = temps.create()
    try {
      try {
        failpoint('fs:temp-created')
        const plan = {
          fromFd: source.fd,
          toFd: temp.fd,
          offset: 0,
          length: source.sizeBytes,
          fromPath: localPath,
          local: 'from',
          localPath,
        } as const
        await copyBytes(context, plan, reportingChunks(call), durable)
        if (durable) fs.fdatasyncSync(temp.fd)
        failpoint('fs:temp-synced')
        const { ino, mtimeNs } = fs.fstatSync(temp.fd, { bigint: true })
        return { ...temp, ino, mtimeNs, sizeBytes: source.sizeBytes }
      } finally {
        fs.closeSync(temp.fd)
      }
    } catch (error) {
      temps.discard(temp)
      throw error
    }
  } finally {
    fs.closeSync(source.fd)
  }
}
