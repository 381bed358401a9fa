import { Slices } from '@nexus/host'
import zstd from 'zstd-napi/binding.js'
import { syncFile, writeFully, type JournalFs } from '../files/journal-fs.ts'
import { encodeFooter } from './segment-footer.ts'

export interface SealInput {
  /** Descriptor of the segment to compress. Bytes below `sizeBytes` must not change meanwhile. */
  fd: number
  sizeBytes: number
  firstSeq: number
  lastSeq: number
}

const SLICE_BYTES = 128 * 1024
/**
 * zstd-napi works on the calling thread. A slice takes about half a millisecond; after this many milliseconds of them the
 * event loop gets a turn. That is cheaper than a worker thread, which needs 25 ms to start, for the 12 ms that a usual
 * segment takes, and leaves the loop no less free.
 */
const YIELD_AFTER_MS = 2

/**
 * Compresses the first `sizeBytes` of a segment into `destPath`, durably, in slices that leave the event loop free.
 * Returns the size of the result. On failure the caller removes `destPath`.
 */
export async function sealSegment(
  fs: JournalFs,
  input: SealInput,
  destPath: string,
  afterSlice: () => void = () => undefined,
): Promise<number> {
  const dest = fs.openSync(destPath, 'w', 0o600)
  try {
    const compressor = new FrameWriter((bytes) => writeFully(fs, dest, bytes), input.sizeBytes)
    const slice = Buffer.allocUnsafe(SLICE_BYTES)
    const time = new Slices({ sliceMs: YIELD_AFTER_MS })
    for (let position = 0; position < input.sizeBytes;) {
      const n = fs.readSync(input.fd, slice, 0, Math.min(SLICE_BYTES, input.sizeBytes - position), position)
      if (n === 0) throw new Error(`segment ended at byte ${position} of ${input.sizeBytes}`)
      position += n
      compressor.write(slice.subarray(0, n), position === input.sizeBytes)
      afterSlice()
      const rest = time.rest()
      if (rest) await rest
    }
    const footer = encodeFooter({
      firstSeq: input.firstSeq,
      lastSeq: input.lastSeq,
      expandedBytes: input.sizeBytes,
    })
    writeFully(fs, dest, footer)
    await syncFile(fs, dest)
    return compressor.producedBytes + footer.length
  } finally {
    fs.closeSync(dest)
  }
}

/** One zstd frame with a content checksum, written piece by piece. */
class FrameWriter {
  producedBytes = 0
  readonly #context = new zstd.CCtx()
  readonly #output = Buffer.allocUnsafe(zstd.cStreamOutSize())
  readonly #write: (bytes: Buffer) => void

  constructor(write: (bytes: Buffer) => void, sizeBytes: number) {
    this.#write = write
    this.#context.setParameter(zstd.CParameter.checksumFlag, 1)
    this.#context.setPledgedSrcSize(sizeBytes)
  }

  write(bytes: Buffer, last: boolean): void {
    const end = last ? zstd.EndDirective.end : zstd.EndDirective.continue
    let rest = bytes
    for (;;) {
      const [remaining, produced, consumed] = this.#context.compressStream2(this.#output, rest, end)
      if (produced > 0) this.#write(this.#output.subarray(0, produced))
      this.producedBytes += produced
      rest = rest.subarray(consumed)
      if (rest.length === 0 && (!last || remaining === 0)) return
    }
  }
}
