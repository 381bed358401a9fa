import { Transform } from 'node:stream'
import type { TransferProgress } from './monotonic-progress.ts'

/** Hands bytes on as they are, and counts them as moved: for a `pipe` or a `pipeline` between a body and its place. */
export function counting(progress: Pick<TransferProgress, 'moved'>): Transform {
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      progress.moved(chunk.length)
      done(null, chunk)
    },
  })
}
