import { decodeChunk } from '../../src/versioned/format/bytes/chunk.ts'
import { decodeCommit, decodeHead } from '../../src/versioned/format/commit-object.ts'
import { DamagedObjectError } from '../../src/versioned/format/bytes/damage.ts'
import { chunkLength, type IndexEntry } from '../../src/versioned/format/index-entry.ts'
import { decodeLeaf } from '../../src/versioned/format/leaf-page.ts'
import { PackTable } from '../../src/versioned/format/pack-table.ts'
import { expandPage } from '../../src/versioned/format/page.ts'
import { TreeCheck } from '../../src/versioned/format/tree-check.ts'

const NAME = 'commits/00000000000000000/001'

/**
 * Reads a session of one commit whole, with the code under test, from bytes at hand.
 *
 * @param by how the commit is fetched: the whole object, or the header and then what it refers to
 */
export function readTree(
  commit: Buffer,
  packs: Record<string, Buffer>,
  by: 'whole' | 'ranges' = 'whole',
): { entries: IndexEntry[]; contents: Map<string, Buffer> } {
  const expected = { object: NAME, sessionId: 's', generation: 1 }
  const head = by === 'whole' ? decodeCommit(commit, expected) : decodeHead(commit, expected)
  if (head === 'short')
    throw new DamagedObjectError({ object: NAME, offset: 0, length: commit.length }, 'it ends in its header')
  const { header, base } = head
  const headerRange = { object: NAME, offset: 36, length: base - 36 }
  const own = { n: header.n, name: NAME, size: commit.length, base, live: 0 }
  const table = new PackTable(own, header.packs, header.next_n, headerRange)
  const objects: Record<string, Buffer> = { ...packs, [NAME]: commit }
  const check = new TreeCheck(table)
  const entries: IndexEntry[] = []
  const contents = new Map<string, Buffer>()
  for (const [at, page] of header.index.pages.entries()) {
    const range = table.locate(page)
    const stored = (objects[range.object] as Buffer).subarray(range.offset, range.offset + range.length)
    const found = decodeLeaf(expandPage(stored, page, range), range)
    check.add(found, page, header.index.pages[at + 1]?.from, range)
    entries.push(...found)
  }
  check.end(header.totals, headerRange)
  for (const entry of entries) {
    if (entry.type !== 'file') continue
    const parts = entry.refs.map((ref, index) => {
      const range = table.locate(ref)
      const stored = (objects[range.object] as Buffer).subarray(range.offset, range.offset + range.length)
      const rawLength = chunkLength(entry.size, entry.chunkSize, index)
      return Buffer.from(decodeChunk(stored, ref, range, { into: Buffer.alloc(rawLength), rawLength }))
    })
    contents.set(entry.path, Buffer.concat(parts))
  }
  return { entries, contents }
}
