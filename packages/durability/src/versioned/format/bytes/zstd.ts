import zstd from 'zstd-napi/binding.js'

const LEVEL = 1
// What is made here is small; a frame of somebody else must not make the decoder take more than 8 MiB for its window.
const MAX_WINDOW_LOG = 23
const FRAME_HEADER_BYTES = 18

const compressor = new zstd.CCtx()
const decompressor = new zstd.DCtx()
const streaming = new zstd.DCtx()
streaming.setParameter(zstd.DParameter.windowLogMax, MAX_WINDOW_LOG)

/** One zstd frame of the bytes. */
export function compress(bytes: Uint8Array): Buffer {
  const out = Buffer.allocUnsafe(zstd.compressBound(bytes.length))
  return out.subarray(0, compressor.compress(out, bytes, LEVEL))
}

/**
 * The content of what must be zstd, in memory of a size that the caller knows.
 *
 * @returns bytes of `into` that were filled; undefined when it isn't zstd or wouldn't fit
 */
export function decompressInto(into: Uint8Array, bytes: Uint8Array): number | undefined {
  try {
    return decompressor.decompress(into, bytes)
  } catch {
    return undefined
  }
}

/** What a frame says that it expands to; undefined when it isn't zstd or doesn't say. */
export function frameContentBytes(bytes: Uint8Array): number | undefined {
  try {
    return zstd.getFrameContentSize(bytes) ?? undefined
  } catch {
    return undefined
  }
}

/**
 * The content of the one frame that begins where the bytes begin, and how many of them it is. A frame that doesn't say what it
 * expands to, or says more than `limitBytes`, is refused before any of it is expanded; so is one that lies about it.
 *
 * @returns 'short' when the bytes end before the frame does, undefined when it isn't such a frame
 */
export function decompressFrame(
  bytes: Uint8Array,
  limitBytes: number,
): { content: Buffer; frameBytes: number } | 'short' | undefined {
  const size = frameContentBytes(bytes)
  if (size === undefined) return bytes.length < FRAME_HEADER_BYTES ? 'short' : undefined
  if (size > limitBytes) return undefined
  const content = Buffer.allocUnsafe(size)
  let [filled, at] = [0, 0]
  streaming.reset(zstd.ResetDirective.sessionOnly)
  try {
    for (;;) {
      const [left, produced, consumed] = streaming.decompressStream(content.subarray(filled), bytes.subarray(at))
      at += consumed
      filled += produced
      if (left === 0) return filled === size ? { content, frameBytes: at } : undefined
      if (produced === 0 && consumed === 0) return at === bytes.length ? 'short' : undefined
    }
  } catch {
    return undefined
  }
}
