import { randomBytes } from 'node:crypto'
import { NexusError } from '@nexus/errors'
import { JOURNAL_HEADER_PATH, META_PATH } from '../../tree/names.ts'
import type { CommitStore } from '../core/commit-store.ts'
import { findHead } from '../core/head-search.ts'
import { FIRST_GENERATION } from '../core/versioned-keys.ts'
import { type ChunkRef, decodeChunk, digestOf, encodeChunk } from '../format/bytes/chunk.ts'
import { MAX_CHUNK_BYTES } from '../format/bytes/limits.ts'
import { chunkLength } from '../format/index-entry.ts'
import type { FileFields, FileRecord } from '../store/file-record.ts'
import type { LoadedTree, LoadOptions } from '../store/read/load-tree.ts'
import { type CommitContext, prepareBuilt } from '../store/write/prepare-commit.ts'
import type { TreeDraft } from '../store/write/tree-draft.ts'
import { type HistoryOptions, type HistorySource, openGeneration, orReclaimed, settled } from './history-source.ts'

/** The session that a fork becomes. */
export interface ForkTarget {
  /** Its objects, and who makes its first commit. */
  context: CommitContext
  commits: CommitStore
}

/** Fields that hold the id of a session, by the file that has them. Envelopes of the journal keep theirs: they tell what was. */
const ID_FIELDS = new Map([
  [META_PATH, 'id'],
  [JOURNAL_HEADER_PATH, 'session_id'],
])

/**
 * Makes a new session of one generation of another. What it holds is copied once, so the two share nothing afterwards.
 *
 * @returns the generation that it begins with, which is 1
 * @throws NexusError `PRECONDITION` when the new id has any commit, `NOT_FOUND` when the generation was reclaimed, also
 *   meanwhile; nothing was committed then
 */
export async function forkSession(
  source: HistorySource,
  generation: number,
  { context, commits }: ForkTarget,
  rest: HistoryOptions = {},
): Promise<number> {
  const options = settled(rest)
  const { objects } = context
  const { sessionId } = objects.place
  if ((await findHead(commits)).is !== 'none') throw exists(sessionId)
  const loaded = await openGeneration(source, generation, options)
  const { state, commit } = loaded
  const { nonce, header_sha256: digest } = state.commit
  const forkedFrom = { session_id: source.objects.place.sessionId, generation, nonce, header_sha256: digest }
  const base = { parent: undefined, link: undefined, generation: FIRST_GENERATION, kept: [], lastStartNs: undefined }
  const about = {
    kind: 'fork' as const,
    nonce: randomBytes(8).toString('hex'),
    forkedFrom,
    turnId: commit.header.turn_id,
    mixedFrom: state.mixedFrom,
    lastSeq: state.journalLastSeq,
    unstored: state.unstored,
  }
  const { paths, dirs, links } = state
  const prepared = await orReclaimed(source, generation, () =>
    prepareBuilt(
      context,
      base,
      { about, tree: { paths, dirs, links }, fill: (draft) => fill(draft, loaded, sessionId, options) },
      options.slices,
      options.signal,
    ),
  )
  if (!(await objects.create(objects.nameOf(FIRST_GENERATION), prepared.bytes, options.signal))) throw exists(sessionId)
  await objects.place.store.flush(options.signal === undefined ? {} : { signal: options.signal })
  return FIRST_GENERATION
}

function exists(sessionId: string): NexusError {
  const message = `session ${sessionId} has commits already: fork to an id that was never used`
  return new NexusError('PRECONDITION', message, { op: 'history.fork', key: sessionId })
}

/** A chunk that is copied, and how long it is. */
interface CopiedChunk extends ChunkRef {
  id: number
  rawLength: number
}

async function fill(
  draft: TreeDraft,
  { state, reader }: LoadedTree,
  sessionId: string,
  options: LoadOptions,
): Promise<void> {
  const wanted = new Map<number, CopiedChunk>()
  for (const path of state.paths) {
    if (options.slices.due) await options.slices.pause()
    const file = state.files[path]
    for (const [index, id] of file?.chunks.entries() ?? []) {
      if (file === undefined || wanted.has(id)) continue
      const rawLength = chunkLength(file.size, file.chunkSize, index)
      wanted.set(id, { ...state.table.ref(id), id, rawLength })
    }
  }
  const copies = new Map<number, number>()
  const scratch = Buffer.allocUnsafe(MAX_CHUNK_BYTES)
  await reader.read(
    wanted.values(),
    async (chunk, stored, range) => {
      if (options.slices.due) await options.slices.pause()
      const { id, digest, codec, rawLength } = chunk
      decodeChunk(stored, chunk, range, { into: scratch, rawLength })
      // The piece that it came in is larger, and not to be held for it.
      copies.set(id, draft.known(digest) ?? (await draft.add({ digest, codec, stored: Buffer.from(stored) })))
    },
    options,
  )
  for (const path of state.paths) {
    if (options.slices.due) await options.slices.pause()
    const file = state.files[path]
    if (file === undefined) continue
    const chunks = file.chunks.map((id) => copies.get(id) as number)
    draft.setFile(path, { ...fieldsOf(file), chunks }, undefined)
  }
  for (const [path, field] of ID_FIELDS)
    await renameIn(path, field, sessionId, { draft, loaded: { state, reader }, options })
}

function fieldsOf({ mode, mtimeNs, size, chunkSize }: FileRecord): Omit<FileFields, 'chunks'> {
  return { mode, mtimeNs, size, chunkSize }
}

/** Writes the new id into a small JSON file. One that isn't there, or isn't JSON, is left as it is. */
async function renameIn(
  path: string,
  field: string,
  sessionId: string,
  { draft, loaded, options }: { draft: TreeDraft; loaded: Pick<LoadedTree, 'state' | 'reader'>; options: LoadOptions },
): Promise<void> {
  const file = loaded.state.files[path]
  const [id] = file?.chunks ?? []
  if (file === undefined || id === undefined || file.chunks.length > 1) return
  let text = ''
  await loaded.reader.read(
    [loaded.state.table.ref(id)],
    (ref, stored, range) => {
      text = decodeChunk(stored, ref, range, { into: Buffer.alloc(file.size), rawLength: file.size }).toString()
    },
    options,
  )
  const bytes = Buffer.from(withField(text, field, sessionId))
  const digest = digestOf(bytes)
  const renamed = draft.known(digest) ?? (await draft.add(encodeChunk(bytes, digest)))
  draft.setFile(path, { ...fieldsOf(file), size: bytes.length, chunks: [renamed] }, undefined)
}

function withField(text: string, field: string, value: string): string {
  try {
    const fields: unknown = JSON.parse(text)
    if (typeof fields !== 'object' || fields === null || Array.isArray(fields)) return text
    const indent = text.includes('\n ') ? 2 : undefined
    return JSON.stringify({ ...fields, [field]: value }, undefined, indent) + (text.endsWith('\n') ? '\n' : '')
  } catch {
    return text
  }
}
