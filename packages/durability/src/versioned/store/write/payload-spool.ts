import { randomBytes } from 'node:crypto'
import { rmSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { engineTempName } from '@nexus/host'
import type { UploadedPack } from '../../core/session-record.ts'
import { type PackName, packFile, packKey } from '../../core/versioned-keys.ts'
import type { ChunkRef, StoredChunk } from '../../format/bytes/chunk.ts'
import { encodePackEnd, PACK_MAGIC, packItem, type PackItem } from '../../format/pack-object.ts'
import type { PackEntry } from '../../format/pack-table-page.ts'
import { type SessionPlace, waiting } from '../session-objects.ts'

/** Payload up to this rides in the commit. */
export const RIDING_BYTES: number = 1024 * 1024
/** A pack is full before it would grow beyond this. */
const PACK_BYTES = 16 * 1024 * 1024
/** Packs on their way at a time. */
const MAX_UPLOADS = 16

/** Where a chunk is going to lie. The place in its object is known at once, the object only when the spool is closed. */
export interface Spot {
  pack: OpenPack
  /** From the first chunk of the pack. */
  offset: number
  length: number
  codec: ChunkRef['codec']
}

interface OpenPack {
  items: PackItem[]
  parts: Uint8Array[]
  bytes: number
  /** Undefined while it may still ride in the commit, and for good when it does. */
  entry: PackEntry | undefined
}

export interface SpoolOptions {
  place: SessionPlace
  /** The name of a commit, as tables of packs have it. */
  nameOf: (generation: number) => string
  /** The generation that the payload is for: the number of its packs. */
  generation: number
  /** Gives out numbers of objects. */
  takeNumber: () => number
  /** Called for each pack once it is stored. */
  onPack: (pack: UploadedPack) => void | Promise<void>
  signal?: AbortSignal | undefined
}

/**
 * The payload of one commit on its way: a little is kept to ride in the commit, more goes into packs that are uploaded while
 * the rest is still being read.
 */
export class PayloadSpool {
  readonly #options: SpoolOptions
  readonly #attempt = randomBytes(8).toString('hex')
  readonly #uploads = new Set<Promise<void>>()
  readonly #packs: PackEntry[] = []
  #failure: { error: unknown } | undefined
  #open: OpenPack = openPack()
  /** Bytes that were stored in packs. */
  packedBytes = 0

  constructor(options: SpoolOptions) {
    this.#options = options
  }

  get hasPacks(): boolean {
    return this.#packs.length > 0
  }

  /** Takes a chunk, whose bytes must not change any more. */
  async add(chunk: StoredChunk): Promise<Spot> {
    if (this.#failure !== undefined) throw this.#failure.error
    while (this.#open.bytes + chunk.stored.length > PACK_BYTES) await this.#pack()
    const spot = { pack: this.#open, offset: this.#open.bytes, length: chunk.stored.length, codec: chunk.codec }
    this.#open.items.push(packItem(chunk, PACK_MAGIC.length + this.#open.bytes))
    this.#open.parts.push(chunk.stored)
    this.#open.bytes += chunk.stored.length
    return spot
  }

  /**
   * Ends the payload. Every pack is stored when it resolves.
   *
   * @param ridingBytes what may ride in the commit
   * @returns what rides, and the packs that were made
   */
  async close(
    ridingBytes: number = RIDING_BYTES,
  ): Promise<{ riding: Uint8Array[]; ridingBytes: number; packs: PackEntry[] }> {
    const rides = this.#open.bytes <= ridingBytes
    if (!rides) await this.#pack()
    await Promise.all(this.#uploads)
    if (this.#failure !== undefined) throw this.#failure.error
    return { riding: this.#open.parts, ridingBytes: this.#open.bytes, packs: this.#packs }
  }

  /** Waits for what is on its way, after a failure. */
  async abandon(): Promise<void> {
    await Promise.allSettled(this.#uploads)
  }

  async #pack(): Promise<void> {
    const pack = this.#open
    this.#open = openPack()
    const { generation, takeNumber } = this.#options
    const name: PackName = { number: generation, attempt: this.#attempt, n: this.#packs.length }
    const end = encodePackEnd(pack.items)
    const size = PACK_MAGIC.length + pack.bytes + end.length
    pack.entry = { n: takeNumber(), name: `packs/${packFile(name)}`, size, base: 0, live: 0 }
    this.#packs.push(pack.entry)
    this.packedBytes += pack.bytes
    while (this.#uploads.size >= MAX_UPLOADS) await Promise.race(this.#uploads)
    const upload = this.#upload(name, [PACK_MAGIC, ...pack.parts, end], size, pack.items)
      .catch((error: unknown) => void (this.#failure ??= { error }))
      .finally(() => this.#uploads.delete(upload))
    this.#uploads.add(upload)
    pack.parts = []
    pack.items = []
  }

  async #upload(name: PackName, parts: Uint8Array[], sizeBytes: number, items: readonly PackItem[]): Promise<void> {
    const { place, onPack, signal } = this.#options
    const path = join(place.scratchDir, engineTempName())
    try {
      await writeFile(path, parts, { mode: 0o600 })
      parts.length = 0
      await place.store.put(packKey(place.root, name), path, waiting(signal))
    } finally {
      rmSync(path, { force: true })
    }
    await onPack({ name, sizeBytes, contents: encodeContents(items) })
  }
}

/** Where a spot is, once its spool is closed. */
export function placeOf(spot: Spot, ownN: number): Omit<ChunkRef, 'digest'> {
  const { pack, offset, length, codec } = spot
  return pack.entry === undefined
    ? { n: ownN, offset, length, codec }
    : { n: pack.entry.n, offset: PACK_MAGIC.length + offset, length, codec }
}

function openPack(): OpenPack {
  return { items: [], parts: [], bytes: 0, entry: undefined }
}

const ROW_BYTES = 36
const ZSTD = 0x8000_0000

/** What a pack holds, as the session's record keeps it. */
export function encodeContents(items: readonly PackItem[]): string {
  const bytes = Buffer.alloc(items.length * ROW_BYTES)
  for (const [at, { digest, length, codec }] of items.entries()) {
    digest.copy(bytes, at * ROW_BYTES)
    bytes.writeUInt32LE((codec === 'zstd' ? ZSTD : 0) + length, at * ROW_BYTES + 32)
  }
  return bytes.toString('base64')
}

/** The chunks of a kept pack; none where the record says something else. */
export function decodeContents(contents: unknown): Omit<ChunkRef, 'n'>[] {
  const bytes = typeof contents === 'string' ? Buffer.from(contents, 'base64') : Buffer.alloc(0)
  const chunks: Omit<ChunkRef, 'n'>[] = []
  let offset = PACK_MAGIC.length
  for (let at = 0; at + ROW_BYTES <= bytes.length; at += ROW_BYTES) {
    const packed = bytes.readUInt32LE(at + 32)
    const length = packed >= ZSTD ? packed - ZSTD : packed
    chunks.push({ digest: bytes.subarray(at, at + 32), offset, length, codec: packed >= ZSTD ? 'zstd' : 'raw' })
    offset += length
  }
  return chunks
}
