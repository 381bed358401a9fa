import { NexusError } from '@nexus/errors'
import { forEachBounded } from '@nexus/objectstore'
import type { ChunkRef } from '../format/bytes/chunk.ts'
import { DamagedObjectError, type ObjectRange } from '../format/bytes/damage.ts'
import type { PackTable } from '../format/pack-table.ts'
import type { SessionObjects, WholeCommit } from './session-objects.ts'

/** An object that a commit names is gone, or a tombstone by now: reclaimed meanwhile, or lost. The caller tells which. */
export class GoneObjectError extends NexusError {
  constructor(object: string) {
    super('NOT_FOUND', `object ${object} is gone, and a commit names it`, { op: 'versioned.read', key: object })
    this.name = 'GoneObjectError'
  }
}

/** References whose bytes lie near each other, fetched by one request. */
interface Piece<T> {
  object: string
  offset: number
  end: number
  wanted: { offset: number; length: number; item: T }[]
}

/** Bytes between two references that cost less than another request. */
const GAP_BYTES = 64 * 1024
const PIECE_BYTES = 4 * 1024 * 1024

/** How {@link RangeReader.read} goes. */
export interface RangeOptions {
  /** Requests in flight. */
  concurrency: number
  signal?: AbortSignal | undefined
}

/** Reads what references lead to, in few requests. */
export class RangeReader {
  readonly #objects: SessionObjects
  readonly #table: PackTable
  /** The commit itself, which is at hand. */
  readonly #own: { name: string; bytes: Buffer } | undefined

  constructor(objects: SessionObjects, table: PackTable, own?: WholeCommit) {
    this.#objects = objects
    this.#table = table
    this.#own = own === undefined ? undefined : { name: objects.nameOf(own.header.generation), bytes: own.bytes }
  }

  /**
   * Gives every item the bytes that are stored for it, several at a time and in any order. What is given lies in memory that
   * is not used again.
   *
   * @throws GoneObjectError, DamagedObjectError, and what the store says
   */
  async read<T extends ChunkRef>(
    items: Iterable<T>,
    take: (item: T, stored: Buffer, range: ObjectRange) => void | Promise<void>,
    { concurrency, signal }: RangeOptions,
  ): Promise<void> {
    const pieces = piecesOf(items, (ref) => this.#table.locate(ref))
    await forEachBounded(
      pieces,
      concurrency,
      async (piece, _index, each) => {
        const { object, offset, end } = piece
        const bytes = await this.#fetch({ object, offset, length: end - offset }, each)
        for (const { offset: at, length, item } of piece.wanted) {
          await take(item, bytes.subarray(at - offset, at - offset + length), { object, offset: at, length })
        }
      },
      signal,
    )
  }

  async #fetch(range: ObjectRange, signal: AbortSignal): Promise<Buffer> {
    const { object, offset, length } = range
    const own = this.#own?.name === object ? this.#own.bytes.subarray(offset, offset + length) : undefined
    const bytes = own ?? (await this.#objects.readRange(range, signal))
    // A tombstone has few bytes, and is whole from its beginning only.
    if (bytes === undefined || (bytes.length < length && (await this.#isBuried(object, signal)))) {
      throw new GoneObjectError(object)
    }
    if (bytes.length < length) throw new DamagedObjectError(range, `it ends ${length - bytes.length} bytes too early`)
    return bytes
  }

  async #isBuried(object: string, signal: AbortSignal): Promise<boolean> {
    if (!object.startsWith('commits/')) return false
    const begin = await this.#objects.readRange({ object, offset: 0, length: 4 }, signal)
    return begin === undefined || begin.toString('latin1') === 'NXT1'
  }
}

function piecesOf<T extends ChunkRef>(items: Iterable<T>, locate: (ref: T) => ObjectRange): Piece<T>[] {
  const byObject = new Map<string, { offset: number; length: number; item: T }[]>()
  for (const item of items) {
    const { object, offset, length } = locate(item)
    const list = byObject.get(object)
    if (list === undefined) byObject.set(object, [{ offset, length, item }])
    else list.push({ offset, length, item })
  }
  const pieces: Piece<T>[] = []
  for (const [object, wanted] of byObject) {
    let piece: Piece<T> | undefined
    for (const each of wanted.toSorted((a, b) => a.offset - b.offset)) {
      const end = each.offset + each.length
      if (piece === undefined || each.offset > piece.end + GAP_BYTES || end - piece.offset > PIECE_BYTES) {
        piece = { object, offset: each.offset, end, wanted: [] }
        pieces.push(piece)
      }
      piece.end = Math.max(piece.end, end)
      piece.wanted.push(each)
    }
  }
  return pieces
}
