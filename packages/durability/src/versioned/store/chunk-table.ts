import type { ChunkRef } from '../format/bytes/chunk.ts'

const FIRST_CAPACITY = 256
const NONE = -1
const DIGEST_BYTES = 32

/**
 * The chunks that a tree refers to, each once, by number: some 60 bytes each, where an object would take hundreds. A tree of
 * 100 GB has a million and a half of them.
 */
export class ChunkTable {
  #digests = Buffer.alloc(FIRST_CAPACITY * DIGEST_BYTES)
  #packs = new Float64Array(FIRST_CAPACITY)
  #offsets = new Float64Array(FIRST_CAPACITY)
  /** Twice the stored length, plus one for zstd. */
  #lengths = new Uint32Array(FIRST_CAPACITY)
  /** How often the tree refers to each. */
  #uses = new Uint32Array(FIRST_CAPACITY)
  /** Ids by the first bytes of their digests, in open addressing; twice as long as the rest. */
  #slots = new Int32Array(FIRST_CAPACITY * 2).fill(NONE)
  #count = 0
  #live = 0

  /** Ids are below it. */
  get count(): number {
    return this.#count
  }

  /** Chunks that are referred to. */
  get live(): number {
    return this.#live
  }

  /** The id of a chunk that the tree refers to; undefined for any other. */
  find(digest: Buffer): number | undefined {
    const id = this.idOf(digest)
    return id === undefined || this.#uses[id] === 0 ? undefined : id
  }

  /** The id of a chunk that the tree refers to or once did. */
  idOf(digest: Buffer): number | undefined {
    const id = this.#slots[this.#slotOf(digest)] as number
    return id === NONE ? undefined : id
  }

  /** Adds a chunk, or moves one that is there. It counts once it is used. */
  put(digest: Buffer, ref: Omit<ChunkRef, 'digest'>): number {
    if (this.#count === this.#lengths.length) this.#grow()
    const slot = this.#slotOf(digest)
    let id = this.#slots[slot] as number
    if (id === NONE) {
      id = this.#count++
      this.#slots[slot] = id
      digest.copy(this.#digests, id * DIGEST_BYTES)
    }
    this.move(id, ref)
    return id
  }

  /** Says where a chunk lies. */
  move(id: number, { n, offset, length, codec }: Omit<ChunkRef, 'digest'>): void {
    this.#packs[id] = n
    this.#offsets[id] = offset
    this.#lengths[id] = length * 2 + (codec === 'zstd' ? 1 : 0)
  }

  /** Counts uses up or down. Returns 1 when the chunk came to life by it, -1 when it died, else 0. */
  use(id: number, change: number): -1 | 0 | 1 {
    const before = this.#uses[id] as number
    const after = before + change
    this.#uses[id] = after
    const turned = before === 0 && after > 0 ? 1 : before > 0 && after === 0 ? -1 : 0
    this.#live += turned
    return turned
  }

  uses(id: number): number {
    return this.#uses[id] as number
  }

  packOf(id: number): number {
    return this.#packs[id] as number
  }

  /** Stored bytes. */
  lengthOf(id: number): number {
    return (this.#lengths[id] as number) >>> 1
  }

  /** Valid until the table changes. */
  digest(id: number): Buffer {
    return this.#digests.subarray(id * DIGEST_BYTES, (id + 1) * DIGEST_BYTES)
  }

  ref(id: number): ChunkRef {
    const packed = this.#lengths[id] as number
    return {
      digest: this.digest(id),
      n: this.#packs[id] as number,
      offset: this.#offsets[id] as number,
      length: packed >>> 1,
      codec: packed % 2 === 1 ? 'zstd' : 'raw',
    }
  }

  /** The slot that holds the digest, or the free one where it belongs. */
  #slotOf(digest: Buffer): number {
    const mask = this.#slots.length - 1
    for (let slot = digest.readUInt32LE(0) & mask; ; slot = (slot + 1) & mask) {
      const id = this.#slots[slot] as number
      if (id === NONE || this.digest(id).equals(digest)) return slot
    }
  }

  #grow(): void {
    const capacity = this.#lengths.length * 2
    const digests = Buffer.alloc(capacity * DIGEST_BYTES)
    this.#digests.copy(digests)
    this.#digests = digests
    this.#packs = grown(this.#packs, new Float64Array(capacity))
    this.#offsets = grown(this.#offsets, new Float64Array(capacity))
    this.#lengths = grown(this.#lengths, new Uint32Array(capacity))
    this.#uses = grown(this.#uses, new Uint32Array(capacity))
    this.#slots = new Int32Array(capacity * 2).fill(NONE)
    for (let id = 0; id < this.#count; id++) this.#slots[this.#slotOf(this.digest(id))] = id
  }
}

function grown<T extends Float64Array | Uint32Array>(from: T, to: T): T {
  to.set(from)
  return to
}
