import { ByteWriter } from './bytes/byte-writer.ts'
import type { ByteReader } from './bytes/byte-reader.ts'
import { type ObjectRange, quote } from './bytes/damage.ts'
import { MAX_NAME_BYTES } from './bytes/limits.ts'
import { beginPage, openPage, readText, writeText } from './page.ts'

/** An object that a commit takes payload from. */
export interface PackEntry {
  /** What references call it. Given once, and never to another. */
  n: number
  /** Below the prefix of the session: `packs/...` or `commits/...`. */
  name: string
  /** Bytes of the object. */
  size: number
  /** Where offsets count from: the end of the header of a commit, 0 in a pack. */
  base: number
  /** Stored bytes of it that this tree refers to. */
  live: number
}

const NAME = /^(?:packs\/[0-9]{20}-[0-9a-f]{16}-[0-9]{1,10}|commits\/[0-9]{17}\/[0-9]{3})$/

/** The bytes of a page that lists objects, by ascending number. */
export function encodePackTable(packs: readonly PackEntry[]): Buffer {
  const to = new ByteWriter()
  beginPage(to, 'packs')
  for (const pack of packs) writePack(to, pack)
  return to.bytes
}

export function writePack(to: ByteWriter, { n, name, size, base, live }: PackEntry): void {
  to.varint(n)
  writeText(to, name)
  to.varint(size)
  to.varint(base)
  to.varint(live)
}

/** @throws DamagedObjectError */
export function decodePackTable(bytes: Buffer, range: ObjectRange): PackEntry[] {
  const from = openPage(bytes, 'packs', range)
  const packs: PackEntry[] = []
  while (!from.isAtEnd) {
    const pack = readPack(from)
    const fault = packFault(pack) ?? (pack.n <= (packs.at(-1)?.n ?? -1) ? 'is not in order' : undefined)
    if (fault !== undefined) from.fail(`the pack ${pack.n} ${fault}`)
    packs.push(pack)
  }
  return packs
}

function readPack(from: ByteReader): PackEntry {
  return {
    n: from.varint(),
    name: readText(from, MAX_NAME_BYTES),
    size: from.varint(),
    base: from.varint(),
    live: from.varint(),
  }
}

/** What is wrong with one entry by itself. */
export function packFault({ name, size, base, live }: PackEntry): string | undefined {
  if (!NAME.test(name)) return `has the name ${quote(name)}, which is that of no pack and no commit`
  if (name.startsWith('packs/') && base !== 0) return 'is a pack and has a header'
  if (base > size || live > size - base) return `has ${live} live bytes from ${base}, and ${size} in all`
  return undefined
}
