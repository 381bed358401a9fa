import { crc32c } from '@nexus/host'
import { digestOf } from './bytes/chunk.ts'
import { DamagedObjectError, type ObjectRange } from './bytes/damage.ts'
import { type CommitHeader, headerJson } from './header.ts'
import { parseHeader } from './header-parse.ts'
import { MAX_HEADER_BYTES } from './bytes/limits.ts'
import { compress, decompressFrame } from './bytes/zstd.ts'

const MAGIC = Buffer.from('NXC1')
const END_MAGIC = Buffer.from('1CXN')

/** The first bytes of a commit: its magic and the digest of its header, which tell it from every other. */
export const IDENTITY_BYTES = 36
/** The last bytes of a commit. */
export const FOOTER_BYTES = 32

/** Where the parts of a commit lie: identity, header, payload, pages, footer, without a gap. */
export interface CommitParts {
  /** Where the payload begins. Offsets of references into a commit count from here. */
  base: number
  payloadBytes: number
  pagesBytes: number
}

/** Whose commit should lie under a name. */
export interface ExpectedCommit {
  object: string
  sessionId: string
  generation: number
}

/** A header, and what only its object tells. */
export interface ReadHeader {
  header: CommitHeader
  /** 64 lowercase hex digits. */
  headerSha256: string
  /** See {@link CommitParts.base}. */
  base: number
}

/** The bytes of a commit up to its payload. */
export function encodeHead(header: CommitHeader): { bytes: Buffer; headerSha256: string } {
  const frame = compress(headerJson(header))
  const digest = digestOf(frame)
  return { bytes: Buffer.concat([MAGIC, digest, frame]), headerSha256: digest.toString('hex') }
}

/**
 * The last bytes of a commit.
 *
 * @param sum CRC32C of everything before them
 */
export function encodeFooter({ base, payloadBytes, pagesBytes }: CommitParts, sum: number): Buffer {
  const bytes = Buffer.alloc(FOOTER_BYTES)
  bytes.writeUInt32LE(base - IDENTITY_BYTES, 0)
  bytes.writeBigUInt64LE(BigInt(payloadBytes), 4)
  bytes.writeBigUInt64LE(BigInt(pagesBytes), 12)
  bytes.writeUInt32LE(sum, 20)
  END_MAGIC.copy(bytes, 24)
  bytes.writeUInt32LE(crc32c(bytes.subarray(0, 28)), 28)
  return bytes
}

/**
 * Where the parts of a commit lie, by its last 32 bytes: an object that was cut says so here, before any of it is parsed.
 *
 * @throws DamagedObjectError
 */
export function decodeFooter(bytes: Buffer, object: string, objectBytes: number): CommitParts & { sum: number } {
  const range = { object, offset: Math.max(0, objectBytes - FOOTER_BYTES), length: Math.min(FOOTER_BYTES, objectBytes) }
  const isFooter =
    bytes.length === FOOTER_BYTES &&
    bytes.subarray(24, 28).equals(END_MAGIC) &&
    bytes.readUInt32LE(28) === crc32c(bytes.subarray(0, 28))
  if (!isFooter) throw new DamagedObjectError(range, 'it does not end as a commit does: it was cut or overwritten')
  const parts = {
    base: IDENTITY_BYTES + bytes.readUInt32LE(0),
    payloadBytes: Number(bytes.readBigUInt64LE(4)),
    pagesBytes: Number(bytes.readBigUInt64LE(12)),
    sum: bytes.readUInt32LE(20),
  }
  const wholeBytes = parts.base + parts.payloadBytes + parts.pagesBytes + FOOTER_BYTES
  if (wholeBytes === objectBytes) return parts
  throw new DamagedObjectError(range, `it has ${objectBytes} bytes, and says that it has ${wholeBytes}`)
}

/**
 * The digest of the header that a commit begins with; undefined for what doesn't begin as a commit.
 *
 * @param bytes the first 36 of the object, or more
 */
export function identityOf(bytes: Buffer): string | undefined {
  if (bytes.length < IDENTITY_BYTES || !bytes.subarray(0, 4).equals(MAGIC)) return undefined
  return bytes.toString('hex', 4, IDENTITY_BYTES)
}

/**
 * The header of a commit, from the beginning of its bytes: as many as the caller has, which need not reach beyond it.
 *
 * @returns 'short' when the header goes on behind them
 * @throws DamagedObjectError; `UNSUPPORTED` for another format
 */
export function decodeHead(bytes: Buffer, { object, ...of }: ExpectedCommit): ReadHeader | 'short' {
  const begin: ObjectRange = { object, offset: 0, length: Math.min(IDENTITY_BYTES, bytes.length) }
  const headerSha256 = identityOf(bytes)
  if (headerSha256 === undefined) throw new DamagedObjectError(begin, 'it does not begin as a commit does')
  const range: ObjectRange = { object, offset: IDENTITY_BYTES, length: bytes.length - IDENTITY_BYTES }
  const frame = decompressFrame(bytes.subarray(IDENTITY_BYTES), MAX_HEADER_BYTES)
  if (frame === 'short') return 'short'
  if (frame === undefined)
    throw new DamagedObjectError(range, 'the header is no zstd frame of a size that a header has')
  const base = IDENTITY_BYTES + frame.frameBytes
  const header: ObjectRange = { ...range, length: frame.frameBytes }
  if (digestOf(bytes.subarray(IDENTITY_BYTES, base)).toString('hex') !== headerSha256) {
    throw new DamagedObjectError(header, 'the sha256 of the header is another than it begins with')
  }
  return { header: parseHeader(frame.content, header, of), headerSha256, base }
}

/**
 * A commit that is there whole: every byte of it is what was written.
 *
 * @throws DamagedObjectError; `UNSUPPORTED` for another format
 */
export function decodeCommit(bytes: Buffer, expected: ExpectedCommit): ReadHeader & CommitParts {
  const { object } = expected
  const whole: ObjectRange = { object, offset: 0, length: bytes.length }
  const { sum, ...parts } = decodeFooter(bytes.subarray(-FOOTER_BYTES), object, bytes.length)
  if (crc32c(bytes.subarray(0, -FOOTER_BYTES)) !== sum) throw new DamagedObjectError(whole, 'its CRC32C is another')
  const head = decodeHead(bytes.subarray(0, parts.base), expected)
  if (head === 'short' || head.base !== parts.base) {
    throw new DamagedObjectError({ ...whole, length: parts.base }, 'the header does not end where the footer says')
  }
  return { ...head, ...parts }
}
