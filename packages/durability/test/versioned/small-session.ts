import type { CommitHeader } from '../../src/versioned/format/header.ts'
import type { IndexEntry } from '../../src/versioned/format/index-entry.ts'
import { addPages, buildCommit, buildPack, ChunkPile, plainHeader } from './build-commit.ts'

const PACK = 'packs/00000000000000000001-00112233445566aa-0'

const CHUNK_BYTES = 4096

/** What the files of {@link smallSession} hold. */
export const CONTENTS: ReadonlyMap<string, Buffer> = new Map([
  ['context/conversation.jsonl', Buffer.from('{"role":"user","content":"héllo"}\n')],
  ['files/large.bin', Buffer.concat([Buffer.alloc(CHUNK_BYTES, 'nexus '), Buffer.from('the end')])],
  ['files/none', Buffer.alloc(0)],
  ['files/raw', Buffer.from([0, 255, 1, 254])],
])

/** Contents in a form that is quick to compare. */
export function hexOf(contents: ReadonlyMap<string, Buffer>): Record<string, string> {
  return Object.fromEntries([...contents].map(([path, content]) => [path, content.toString('hex')]))
}

/** A session of one commit and one pack that has an entry of every type but the rarest. */
export function smallSession(fields: Partial<CommitHeader> = {}): { commit: Buffer; pack: Buffer; packName: string } {
  const packed = new ChunkPile(2, 4)
  const body = new ChunkPile(1)
  const file = (path: string, pile: ChunkPile, mtimeNs: bigint, mode = 0o600): IndexEntry => {
    const content = CONTENTS.get(path) as Buffer
    const refs = []
    for (let at = 0; at < content.length; at += CHUNK_BYTES) refs.push(pile.add(content.subarray(at, at + CHUNK_BYTES)))
    return { type: 'file', path, mode, mtimeNs, size: content.length, chunkSize: CHUNK_BYTES, refs }
  }
  const pages: IndexEntry[][] = [
    [file('context/conversation.jsonl', body, 1_700_000_000_123_456_789n)],
    [
      { type: 'dir', path: 'files/empty', mode: 0o755 },
      file('files/large.bin', packed, -1n),
      { type: 'link', path: 'files/link', target: '../é' },
      file('files/none', body, 0n, 0o777),
      file('files/raw', body, 4_102_444_800_000_000_001n),
    ],
  ]
  const payloadBytes = body.bytes.length
  const index = { depth: 1 as const, pages: addPages(body, pages) }
  const pack = buildPack(packed)
  const live = packed.bytes.length
  let bytes = 0
  for (const content of CONTENTS.values()) bytes += content.length
  const header = plainHeader({
    next_n: 3,
    packs: [{ n: 2, name: PACK, size: pack.length, base: 0, live }],
    index,
    totals: { files: CONTENTS.size, dirs: 1, links: 1, bytes },
    ...fields,
  })
  return { commit: buildCommit(header, body, body.bytes.length - payloadBytes), pack, packName: PACK }
}
