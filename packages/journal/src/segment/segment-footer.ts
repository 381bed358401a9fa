import { nodeFs, type JournalFs } from '../files/journal-fs.ts'

/*
 * The last 48 bytes of a sealed segment are a zstd skippable frame, which every decoder passes over:
 *
 *   u32  0x184D2A5E   magic of a skippable frame
 *   u32  40           bytes that follow
 *   u64  "NXJSEAL1"
 *   u64  first seq
 *   u64  last seq
 *   u64  expanded bytes
 *   u64  the three numbers, xored with FOOTER_CHECK
 *
 * All little-endian. It makes the highest seq of a segment cost one small read, however large the segment is. A segment
 * without it is read through instead.
 */

const SKIPPABLE_MAGIC = 0x184d2a5e
const MARK = 0x314c_4145_534a_584en
const FOOTER_CHECK = 0x6e65_7875_732d_6a6cn
const CONTENT_BYTES = 40

/** Size of the footer on disk. */
export const FOOTER_BYTES: number = 8 + CONTENT_BYTES

/** What a sealed segment says about itself. */
export interface SegmentFooter {
  firstSeq: number
  lastSeq: number
  /** Of the lines, before compression. */
  expandedBytes: number
}

export function encodeFooter(footer: SegmentFooter): Buffer {
  const bytes = Buffer.alloc(FOOTER_BYTES)
  bytes.writeUInt32LE(SKIPPABLE_MAGIC, 0)
  bytes.writeUInt32LE(CONTENT_BYTES, 4)
  const numbers = [footer.firstSeq, footer.lastSeq, footer.expandedBytes].map(BigInt)
  const words = [MARK, ...numbers, numbers.reduce((sum, n) => sum ^ n, FOOTER_CHECK)]
  words.forEach((word, i) => bytes.writeBigUInt64LE(word, 8 + 8 * i))
  return bytes
}

/** The footer at the end of `bytes`, or undefined when there is none. */
export function decodeFooter(bytes: Buffer): SegmentFooter | undefined {
  if (bytes.length < FOOTER_BYTES) return undefined
  const at = bytes.length - FOOTER_BYTES
  if (bytes.readUInt32LE(at) !== SKIPPABLE_MAGIC || bytes.readUInt32LE(at + 4) !== CONTENT_BYTES) return undefined
  const word = (i: number): bigint => bytes.readBigUInt64LE(at + 8 + 8 * i)
  if (word(0) !== MARK || (word(1) ^ word(2) ^ word(3) ^ FOOTER_CHECK) !== word(4)) return undefined
  return { firstSeq: Number(word(1)), lastSeq: Number(word(2)), expandedBytes: Number(word(3)) }
}

/** The footer of an open segment file. */
export function readFooter(fd: number, fs: JournalFs = nodeFs): SegmentFooter | undefined {
  const { size } = fs.fstatSync(fd)
  if (size < FOOTER_BYTES) return undefined
  const bytes = Buffer.alloc(FOOTER_BYTES)
  const n = fs.readSync(fd, bytes, 0, FOOTER_BYTES, size - FOOTER_BYTES)
  return n === FOOTER_BYTES ? decodeFooter(bytes) : undefined
}
