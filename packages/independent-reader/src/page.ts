/** A reference, as pages and headers have it. */
export interface Reference {
  sha256: string
  n: number
  offset: number
  length: number
  codec: string
}

export type Item =
  | { type: 'file'; path: string; mode: number; mtimeNs: bigint; size: number; chunks: Reference[] }
  | { type: 'dir'; path: string; mode: number }
  | { type: 'link'; path: string; target: string }
  | { type: 'more'; path: string; first: number; chunks: Reference[] }

export interface ListedObject {
  n: number
  name: string
  size: number
  base: number
}

/** Goes through the bytes of one page. */
class Cursor {
  at = 5
  readonly page: Buffer
  #path = Buffer.alloc(0)

  constructor(page: Buffer, kind: number) {
    if (page.toString('latin1', 0, 4) !== 'NXP1' || page[4] !== kind) throw new Error(`no page of kind ${kind}`)
    this.page = page
  }

  get hasMore(): boolean {
    return this.at < this.page.length
  }

  take(length: number): Buffer {
    this.at += length
    if (this.at > this.page.length) throw new Error('the page ends too early')
    return this.page.subarray(this.at - length, this.at)
  }

  varint(): number {
    let value = 0n
    for (let shift = 0n; ; shift += 7n) {
      const byte = BigInt(this.take(1)[0] ?? 0)
      value |= (byte & 0x7fn) << shift
      if (byte < 0x80n) return Number(value)
    }
  }

  text(): string {
    return this.take(this.varint()).toString()
  }

  path(): string {
    const shared = this.#path.subarray(0, this.varint())
    this.#path = Buffer.concat([shared, this.take(this.varint())])
    return this.#path.toString()
  }

  reference(): Reference {
    const sha256 = this.take(32).toString('hex')
    const [n, offset, packed] = [this.varint(), this.varint(), this.varint()]
    return { sha256, n, offset, length: Math.floor(packed / 2), codec: packed % 2 === 1 ? 'zstd' : 'raw' }
  }

  references(): Reference[] {
    return Array.from({ length: this.varint() }, () => this.reference())
  }

  time(): bigint {
    const s = BigInt(this.varint())
    const seconds = s % 2n === 0n ? s / 2n : -(s + 1n) / 2n
    return seconds * 1_000_000_000n + BigInt(this.take(4).readUInt32LE())
  }
}

export function entriesOf(page: Buffer): Item[] {
  const cursor = new Cursor(page, 0)
  const items: Item[] = []
  while (cursor.hasMore) {
    const path = cursor.path()
    const type = cursor.take(1)[0]
    if (type === 0) {
      const mode = cursor.varint()
      const mtimeNs = cursor.time()
      const size = cursor.varint()
      cursor.varint()
      items.push({ type: 'file', path, mode, mtimeNs, size, chunks: cursor.references() })
    } else if (type === 1) items.push({ type: 'dir', path, mode: cursor.varint() })
    else if (type === 2) items.push({ type: 'link', path, target: cursor.text() })
    else if (type === 3) items.push({ type: 'more', path, first: cursor.varint(), chunks: cursor.references() })
    else throw new Error(`an entry of type ${type}`)
  }
  return items
}

export function pagesOf(page: Buffer): Reference[] {
  const cursor = new Cursor(page, 1)
  const pages: Reference[] = []
  while (cursor.hasMore) {
    cursor.path()
    cursor.varint()
    pages.push(cursor.reference())
  }
  return pages
}

export function objectsOf(page: Buffer): ListedObject[] {
  const cursor = new Cursor(page, 2)
  const objects: ListedObject[] = []
  while (cursor.hasMore) {
    const [n, name, size, base] = [cursor.varint(), cursor.text(), cursor.varint(), cursor.varint()]
    cursor.varint()
    objects.push({ n, name, size, base })
  }
  return objects
}
