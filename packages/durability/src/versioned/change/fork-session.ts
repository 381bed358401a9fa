import { randomBytes } from 'node:crypto'
import { NexusError } from '@nexus/errors'
import { noFailpoint, silentLogger } from '@nexus/host'
import type { ObjectStore } from '@nexus/objectstore'
import { JOURNAL_HEADER_PATH, META_PATH } from '../../tree/names.ts'
import { mirrorLayout } from '../../mirror-layout.ts'
import { findHead } from '../core/head-search.ts'
import { FIRST_GENERATION } from '../core/versioned-keys.ts'
import { decodeChunk, digestOf, encodeChunk } from '../format/bytes/chunk.ts'
import type { LoadedTree, LoadOptions } from '../store/read/load-tree.ts'
import { prepareBuilt, type PreparedCommit } from '../store/write/prepare-commit.ts'
import type { TreeDraft } from '../store/write/tree-draft.ts'
import { authorContext, baseOn, type ChangeOptions, commitBehind } from './chain-author.ts'
import { copyTree, fieldsOf } from './copy-tree.ts'
import {
  type HistorySource,
  openGeneration,
  type OpenedGeneration,
  orReclaimed,
  withSource,
} from '../history/history-source.ts'

/** What is forked. */
export interface ForkOptions extends Omit<ChangeOptions, 'force' | 'sessionsRoot'> {
  /** The id of the new session. */
  as: string
  /** Default: the newest. */
  generation?: number | undefined
  /** The fork may be removed so long after its last commit. 0, the default: never. */
  ttlMs?: number | undefined
}

/** A session that was made of another. */
export interface ForkedSession {
  id: string
  /** Its first commit: 1. */
  generation: number
  forkedFrom: { id: string; generation: number }
  files: number
  bytes: number
}

/** Fields that hold the id of a session, by the file that has them. Envelopes of the journal keep theirs: they tell what was. */
const ID_FIELDS = new Map([
  [META_PATH, 'id'],
  [JOURNAL_HEADER_PATH, 'session_id'],
])

/**
 * Makes a new session of one generation of another, in the same bucket. What it holds is copied once, so the two share nothing
 * afterwards. The other one isn't touched, and may be running.
 *
 * @throws NexusError `PRECONDITION` when the new id has any commit, `NOT_FOUND` when the generation was reclaimed, also
 *   meanwhile: nothing was committed then; `UNAVAILABLE` when the store didn't say whether it was
 * @see docs/guides/time-travel.md
 */
export async function forkSession(store: ObjectStore, sessionId: string, options: ForkOptions): Promise<ForkedSession> {
  const { as, generation: wanted } = options
  return await withSource(store, sessionId, options, (source) =>
    withSource(store, as, options, async (target) => {
      await refuseTaken(target)
      const opened = await openGeneration(source, wanted)
      const { generation } = opened
      const made = await commitBehind(target, undefined, async () => {
        const prepared = await orReclaimed(source, generation, () => prepareFork(source, target, opened, options))
        await refuseReclaimed(source, opened)
        return prepared
      })
      if (made === 'lost') throw taken(as)
      const { files, bytes } = made.header.totals
      return { id: as, generation: FIRST_GENERATION, forkedFrom: { id: sessionId, generation }, files, bytes }
    }),
  )
}

async function refuseTaken({ sessionId, objects, commits, clock, loading }: HistorySource): Promise<void> {
  if ((await findHead(commits)).is !== 'none') throw taken(sessionId)
  const { store, scratchDir } = objects.place
  const mirror = mirrorLayout({ store, sessionId, clock, logger: silentLogger, failpoint: noFailpoint }, scratchDir)
  if ((await mirror.head(loading.signal)) !== undefined) throw taken(sessionId)
}

/** All of it was read, but it may have been purged since: what was taken away for good is not brought back. */
async function refuseReclaimed(
  source: HistorySource,
  { generation, commit }: OpenedGeneration & { generation: number },
): Promise<void> {
  const found = await source.commits.read(generation)
  if (found.is === 'commit' && found.commit.digest === commit.headerSha256) return
  const message = `generation ${generation} of session ${source.sessionId} was reclaimed while it was copied`
  throw new NexusError('NOT_FOUND', message, { op: 'history.fork', key: source.sessionId })
}

function taken(sessionId: string): NexusError {
  const message = `session ${sessionId} has commits already: fork to an id that was never used`
  return new NexusError('PRECONDITION', message, { op: 'history.fork', key: sessionId })
}

async function prepareFork(
  source: HistorySource,
  target: HistorySource,
  opened: OpenedGeneration & { generation: number },
  options: ForkOptions,
): Promise<PreparedCommit> {
  const { state, commit, generation } = opened
  const { nonce, header_sha256: digest } = state.commit
  const { loading } = source
  const about = {
    kind: 'fork' as const,
    nonce: randomBytes(8).toString('hex'),
    forkedFrom: { session_id: source.sessionId, generation, nonce, header_sha256: digest },
    turnId: commit.header.turn_id,
    mixedFrom: state.mixedFrom,
    lastSeq: state.journalLastSeq,
    unstored: state.unstored,
  }
  const { paths, dirs, links } = state
  const fill = async (draft: TreeDraft): Promise<void> => {
    await copyTree(draft, opened, loading)
    for (const [path, field] of ID_FIELDS)
      await renameIn(path, field, target.sessionId, { draft, loaded: opened, loading })
  }
  const context = authorContext(target, options)
  const tree = { paths, dirs, links }
  return await prepareBuilt(
    context,
    baseOn(undefined, FIRST_GENERATION),
    { about, tree, fill },
    loading.slices,
    loading.signal,
  )
}

/** Writes the new id into a small JSON file. One that isn't there, or isn't JSON, is left as it is. */
async function renameIn(
  path: string,
  field: string,
  sessionId: string,
  { draft, loaded, loading }: { draft: TreeDraft; loaded: LoadedTree; loading: LoadOptions },
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
    loading,
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
