import { createHash } from 'node:crypto'
import { crc32 } from 'node:zlib'

/** A running checksum, given as S3 writes it: base64 of the big-endian value. */
export interface Checksum {
  update(bytes: Uint8Array): void
  digest(): string
}

/** The algorithms by the end of their header's name, `x-amz-checksum-...`. */
export const checksumAlgorithms: Readonly<Record<string, () => Checksum>> = {
  crc32: () => {
    let sum = 0
    return { update: (bytes) => void (sum = crc32(bytes, sum)), digest: () => base64Of32(sum) }
  },
  crc32c: () => {
    let sum = 0xffffffff
    return {
      update: (bytes) => {
        for (const byte of bytes) sum = (CRC32C[(sum ^ byte) & 0xff] ?? 0) ^ (sum >>> 8)
      },
      digest: () => base64Of32((sum ^ 0xffffffff) >>> 0),
    }
  },
  crc64nvme: () => {
    let sum = MAX_64
    return {
      update: (bytes) => {
        for (const byte of bytes) sum = (CRC64[Number((sum ^ BigInt(byte)) & 0xffn)] ?? 0n) ^ (sum >> 8n)
      },
      digest: () => {
        const out = Buffer.alloc(8)
        out.writeBigUInt64BE(sum ^ MAX_64)
        return out.toString('base64')
      },
    }
  },
  sha1: () => hashed('sha1'),
  sha256: () => hashed('sha256'),
}

const MAX_64 = 0xffffffffffffffffn

const CRC32C: readonly number[] = Array.from({ length: 256 }, (_, byte) => {
  let value = byte
  for (let bit = 0; bit < 8; bit++) value = (value & 1) === 1 ? (value >>> 1) ^ 0x82f63b78 : value >>> 1
  return value >>> 0
})

const CRC64: readonly bigint[] = Array.from({ length: 256 }, (_, byte) => {
  let value = BigInt(byte)
  for (let bit = 0; bit < 8; bit++) value = (value & 1n) === 1n ? (value >> 1n) ^ 0x9a6c9329ac4bc9b5n : value >> 1n
  return value
})

function base64Of32(value: number): string {
  const out = Buffer.alloc(4)
  out.writeUInt32BE(value >>> 0)
  return out.toString('base64')
}

function hashed(name: string): Checksum {
  const hash = createHash(name)
  return { update: (bytes) => void hash.update(bytes), digest: () => hash.digest('base64') }
}
