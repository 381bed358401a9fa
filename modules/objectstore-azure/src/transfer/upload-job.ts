import type { Readable } from 'node:stream'
import type { BlockBlobUploadOptions } from '@azure/storage-blob'
import type { Attempt, OpOptions, Snapshot, TransferProgress } from '@nexus/objectstore'
import type { Container } from '../container.ts'

/** One upload under way. */
export interface Upload {
  name: string
  file: Snapshot
  signal: AbortSignal
  onWait: OpOptions['onWait']
  progress: TransferProgress
}

export const CONTENT_TYPE = 'application/octet-stream'

/** The request fields that say how blobs are kept. */
export function storedAs({ options }: Container): Pick<BlockBlobUploadOptions, 'tier' | 'encryptionScope'> {
  const { accessTier, encryptionScope } = options
  return {
    ...(accessTier === undefined ? {} : { tier: accessTier }),
    ...(encryptionScope === undefined ? {} : { encryptionScope }),
  }
}

/** Opens a part of the file as the body of one attempt, which moves with it and fails with it. */
export function openBody(
  { file, progress }: Upload,
  offset: number,
  length: number,
  attempt: Attempt,
  onChunk: (chunk: Buffer) => void = () => undefined,
): Readable {
  progress.begin(offset)
  const stream = file.stream(offset, length)
  // A pipe does not pass on the failure of its source.
  stream.once('error', (error) => attempt.fail(error))
  stream.on('data', (chunk: Buffer) => {
    attempt.moved()
    progress.moved(chunk.length)
    onChunk(chunk)
  })
  // Listening set it going; it waits for the request to take it.
  return stream.pause()
}
