import { crc32c } from '@nexus/host'
import { digestOf, encodeChunk, type ChunkRef, type StoredChunk } from '../../src/versioned/format/bytes/chunk.ts'
import { encodeFooter, encodeHead } from '../../src/versioned/format/commit-object.ts'
import type { CommitHeader } from '../../src/versioned/format/header.ts'
import { type IndexEntry, keyOf } from '../../src/versioned/format/index-entry.ts'
import type { PageRef } from '../../src/versioned/format/inner-page.ts'
import { encodeLeaf } from '../../src/versioned/format/leaf-page.ts'
import { encodePackEnd, PACK_MAGIC, packItem, type PackItem } from '../../src/versioned/format/pack-object.ts'

/** One object of a commit that is put together by hand: chunks go into it, and references come out. */
export class ChunkPile {
  readonly n: number
  readonly #base: number
  readonly items: PackItem[] = []
  readonly #parts: Uint8Array[] = []
  #length = 0

  /** @param base bytes that come before, and are counted in offsets: 4 in a pack */
  constructor(n: number, base = 0) {
    this.n = n
    this.#base = base
  }

  get bytes(): Buffer {
    return Buffer.concat(this.#parts, this.#length)
  }

  add(content: Uint8Array): ChunkRef {
    return this.put(encodeChunk(content, digestOf(content)))
  }

  put(chunk: StoredChunk): ChunkRef {
    const offset = this.#base + this.#length
    this.#parts.push(chunk.stored)
    this.#length += chunk.stored.length
    this.items.push(packItem(chunk, offset))
    return { digest: chunk.digest, n: this.n, offset, length: chunk.stored.length, codec: chunk.codec }
  }
}

/** A whole pack. */
export function buildPack(pile: ChunkPile): Buffer {
  return Buffer.concat([PACK_MAGIC, pile.bytes, encodePackEnd(pile.items)])
}

/** A header of generation 1 of the session "s", with no tree. */
export function plainHeader(fields: Partial<CommitHeader> = {}): CommitHeader {
  return {
    format: 1,
    session_id: 's',
    generation: 1,
    nonce: '0011223344556677',
    kind: 'turn',
    completed_at: '2026-01-02T03:04:05.678Z',
    journal: { last_seq: 7 },
    epoch: 1,
    owner: { instance_id: 'i', machine_id: 'm' },
    n: 1,
    next_n: 2,
    packs: [],
    pack_pages: [],
    index: { depth: 1, pages: [] },
    totals: { files: 0, dirs: 0, links: 0, bytes: 0 },
    unstored: [],
    ...fields,
  }
}

/** Stores pages of entries behind the payload, and lists them. */
export function addPages(pile: ChunkPile, pages: readonly (readonly IndexEntry[])[]): PageRef[] {
  return pages.map((entries, at) => ({
    from: at === 0 ? '' : keyOf(entries[0] as IndexEntry),
    entries: entries.length,
    ...pile.add(encodeLeaf(entries)),
  }))
}

/** A whole commit. `payload` holds its chunks and then its pages. */
export function buildCommit(header: CommitHeader, payload: ChunkPile, pagesBytes: number): Buffer {
  const { bytes } = encodeHead(header)
  const body = payload.bytes
  const before = Buffer.concat([bytes, body])
  const parts = { base: bytes.length, payloadBytes: body.length - pagesBytes, pagesBytes }
  return Buffer.concat([before, encodeFooter(parts, crc32c(before))])
}
