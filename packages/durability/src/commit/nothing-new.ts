import { join } from 'node:path'
import { JournalReader } from '@nexus/journal'
import { createHash } from 'node:crypto'
import { closeSync, openSync, readSync } from 'node:fs'
import type { Slices, TreeCursor, FileDigester } from '@nexus/host'
import type { Committed } from '../tree/committed.ts'
import type { StagedFile } from '../capture/stage.ts'
import { CONFIG_SNAPSHOT_PATH, JOURNAL_DIR, META_PATH } from '../tree/names.ts'
import { TreeWalker } from '../tree/tree-walk.ts'

/** What of a closing session is compared with its last commit. */
export interface ClosingTree {
  cursor: TreeCursor
  committed: Committed
  /** Copies that stand for files of the tree: the databases, and perhaps the active journal segment. */
  staged: ReadonlyMap<string, StagedFile>
  digester: FileDigester
  slices: Slices
}

/** Events by which a session tells of itself: that it was stored, that it ends. */
const OF_ITSELF = /^(?:core\.|session\.(?!file\.))/
/** What the engine rewrites at every end. */
const REWRITTEN: ReadonlySet<string> = new Set([META_PATH, CONFIG_SNAPSHOT_PATH])

/**
 * Whether the tree holds what the committed one holds, byte for byte, and its journal nothing since but the session's own end:
 * then another commit would move every file again and tell a resume nothing.
 */
export async function holdsNothingNew(closing: ClosingTree): Promise<boolean> {
  const { cursor, committed, staged, slices } = closing
  const tree = await new TreeWalker(cursor, { maxPathBytes: Infinity, slices }).walk()
  const paths = new Set([...tree.files.keys(), ...staged.keys()].filter(isCompared))
  if (tree.unstorable.length > 0 || paths.size !== Object.keys(committed.entries).filter(isCompared).length)
    return false
  const links = Object.entries(committed.links)
  if (links.length !== tree.links.size || links.some(([path, { target }]) => tree.links.get(path) !== target))
    return false
  for (const path of paths) if (!(await isCommitted(path, closing, tree.files.get(path)?.size))) return false
  return await endsOnlyItself(cursor.root, committed)
}

function isCompared(path: string): boolean {
  return !path.startsWith(`${JOURNAL_DIR}/`) && !REWRITTEN.has(path)
}

async function isCommitted(path: string, closing: ClosingTree, size: number | undefined): Promise<boolean> {
  const { cursor, committed, staged, digester, slices } = closing
  const copy = staged.get(path)
  const entry = committed.entries[path]
  const sizeHint = copy?.sizeBytes ?? size
  if (entry === undefined || sizeHint !== entry.size) return false
  const fd = copy === undefined ? cursor.openFile(path) : openSync(copy.localPath, 'r')
  try {
    const { chunkSize = Infinity } = entry
    if (entry.size > chunkSize) return (await digestOfChunks(fd, entry.size, chunkSize, slices)) === entry.sha256
    return (await digester.digest(fd, { sizeHint, slices })).sha256 === entry.sha256
  } finally {
    closeSync(fd)
  }
}

async function digestOfChunks(fd: number, size: number, chunkSize: number, slices: Slices): Promise<string> {
  const whole = createHash('sha256')
  const buffer = Buffer.allocUnsafe(chunkSize)
  for (let at = 0; at < size; at += chunkSize) {
    if (slices.due) await slices.pause()
    const read = readSync(fd, buffer, 0, Math.min(chunkSize, size - at), at)
    whole.update(createHash('sha256').update(buffer.subarray(0, read)).digest())
  }
  return whole.digest('hex')
}

async function endsOnlyItself(sessionDir: string, { journal }: Committed): Promise<boolean> {
  const reader = await JournalReader.open(join(sessionDir, JOURNAL_DIR), { fromSeq: journal.last_seq + 1 })
  for await (const { type, payload } of reader) {
    const ofMeta = type === 'session.file.updated' && (payload as { path?: string }).path === META_PATH
    if (!ofMeta && !OF_ITSELF.test(type)) return false
  }
  return true
}
