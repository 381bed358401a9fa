import { crc32c } from '@nexus/host'
import { digestOf } from './bytes/chunk.ts'
import { DamagedObjectError } from './bytes/damage.ts'

const MAGIC = Buffer.from('NXT1')
/** Bytes of every tombstone; no commit is as short. */
export const TOMBSTONE_BYTES = 56

/** What a reclaimed commit is overwritten with, so that its number is never free again. */
export interface Tombstone {
  sessionId: string
  generation: number
  /** When it was written, in milliseconds since the epoch. */
  atMs: number
}

export function encodeTombstone({ sessionId, generation, atMs }: Tombstone): Buffer {
  const bytes = Buffer.alloc(TOMBSTONE_BYTES)
  MAGIC.copy(bytes)
  bytes.writeBigUInt64LE(BigInt(generation), 4)
  bytes.writeBigUInt64LE(BigInt(atMs), 12)
  digestOf(Buffer.from(sessionId)).copy(bytes, 20)
  bytes.writeUInt32LE(crc32c(bytes.subarray(0, 52)), 52)
  return bytes
}

/** Whether an object begins as a tombstone does. */
export function isTombstone(bytes: Buffer): boolean {
  return bytes.subarray(0, MAGIC.length).equals(MAGIC)
}

/**
 * When the tombstone of a generation was written, in milliseconds since the epoch.
 *
 * @throws DamagedObjectError for one that isn't whole, or is that of another commit
 */
export function decodeTombstone(
  bytes: Buffer,
  { object, sessionId, generation }: { object: string; sessionId: string; generation: number },
): number {
  const fail = (why: string): never => {
    throw new DamagedObjectError({ object, offset: 0, length: bytes.length }, why)
  }
  const isWhole =
    bytes.length === TOMBSTONE_BYTES && isTombstone(bytes) && bytes.readUInt32LE(52) === crc32c(bytes.subarray(0, 52))
  if (!isWhole) fail('it is no whole tombstone')
  if (!bytes.subarray(20, 52).equals(digestOf(Buffer.from(sessionId)))) fail('it is the tombstone of another session')
  const found = bytes.readBigUInt64LE(4)
  if (found !== BigInt(generation)) fail(`it is the tombstone of generation ${found}`)
  return Number(bytes.readBigUInt64LE(12))
}
