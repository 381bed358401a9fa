import type { OpOptions } from '../driver.ts'

/** How a transfer of one object reports; see {@link monotonicProgress}. */
export interface TransferProgress {
  /** An attempt begins at this byte of what is to be moved: 0, or where the last one broke. */
  begin(atByte?: number): void
  /** So many bytes more have moved. */
  moved(bytes: number): void
  /** The object is whole. */
  finished(sizeBytes: number): void
}

/**
 * Reports the transfer of one object in totals that never go back, although attempts begin again: bytes that move a second
 * time are told as `repeatedBytes`, which keeps a call alive that repeats a lot over a slow link.
 */
export function monotonicProgress(onProgress: OpOptions['onProgress']): TransferProgress {
  let at = 0
  let most = 0
  let repeatedBytes = 0
  return {
    begin(atByte = 0) {
      at = atByte
    },
    moved(bytes) {
      const again = Math.min(bytes, Math.max(0, most - at))
      at += bytes
      repeatedBytes += again
      most = Math.max(most, at)
      onProgress?.({ objects: 0, bytes: most, ...(repeatedBytes === 0 ? {} : { repeatedBytes }) })
    },
    finished(sizeBytes) {
      onProgress?.({ objects: 1, bytes: Math.max(most, sizeBytes), ...(repeatedBytes === 0 ? {} : { repeatedBytes }) })
    },
  }
}
