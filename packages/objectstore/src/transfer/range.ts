import type { ByteRange } from '../driver.ts'

/** The bytes of an object that a range names. */
export interface ResolvedRange {
  /** First byte; at most `sizeBytes`. */
  offset: number
  /** 0 where the range lies behind the end, and for `length: 0`. */
  length: number
}

/** What a range means for an object of a size: cut at the end, empty behind it. */
export function resolveRange(
  { offset = 0, length = Infinity }: { offset?: number | undefined; length?: number | undefined },
  sizeBytes: number,
): ResolvedRange {
  const from = Math.min(offset, sizeBytes)
  return { offset: from, length: Math.min(length, sizeBytes - from) }
}

/**
 * The `Range` header for a range, undefined for the whole object. HTTP has no empty range: for `length: 0` one byte is asked
 * for, to learn whether the object is there, and is not to be written. A store answers 416 to a range behind the end:
 * the object is there, and the file is empty.
 */
export function rangeHeader({ offset = 0, length }: ByteRange): string | undefined {
  if (length === undefined) return offset === 0 ? undefined : `bytes=${offset}-`
  return `bytes=${offset}-${offset + Math.max(length, 1) - 1}`
}
