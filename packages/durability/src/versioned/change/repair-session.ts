import { randomBytes } from 'node:crypto'
import { closeSync, readSync } from 'node:fs'
import { NexusError } from '@nexus/errors'
import { fileFault, TreeCursor } from '@nexus/host'
import type { ObjectStore } from '@nexus/objectstore'
import { commitIn } from '../core/commit-facts.ts'
import { digestOf, encodeChunk } from '../format/bytes/chunk.ts'
import { chunkLength } from '../format/index-entry.ts'
import type { LoadedTree } from '../store/read/load-tree.ts'
import { prepareBuilt } from '../store/write/prepare-commit.ts'
import { authorContext, baseOn, type ChangeOptions, commitBehind, refuseLive } from './chain-author.ts'
import { openGeneration, withSource } from '../history/history-source.ts'
import { damagedChunks, type LostPart } from '../history/salvage.ts'

/** What a repair did. */
export interface RepairedSession {
  /** The commit that holds it; undefined when nothing was damaged, or nothing could be mended. */
  generation?: number | undefined
  repaired: readonly string[]
  /** Files whose content this tree doesn't hold either. */
  lost: readonly LostPart[]
}

/**
 * Stores once more what the newest generation lacks and a local tree still has, by a commit that holds the same tree. The host
 * that has the session open has lost it then.
 *
 * @param options `treeDir`: the session's directory on this machine; the caller holds its lock
 * @throws SessionOwnedError (`LOCKED`) when the owner looks live; NexusError `NOT_FOUND`, `CORRUPT` when the index itself is
 *   damaged, `PRECONDITION` when another host committed meanwhile
 */
export async function repairSession(
  store: ObjectStore,
  sessionId: string,
  { treeDir, ...options }: ChangeOptions & { treeDir: string },
): Promise<RepairedSession> {
  return await withSource(store, sessionId, options, async (source) => {
    await refuseLive(source, options)
    const opened = await openGeneration(source)
    const { state, header } = opened
    const damaged = await damagedChunks(source, opened)
    const found = findHere(opened, damaged, treeDir)
    const lost: LostPart[] = []
    const repaired: string[] = []
    for (const path of state.paths) {
      const bad = state.files[path]?.chunks.filter((id) => damaged.has(id)) ?? []
      const [missing] = bad.filter((id) => !found.has(id))
      if (missing !== undefined) lost.push({ path, why: damaged.get(missing)?.message ?? '' })
      else if (bad.length > 0) repaired.push(path)
    }
    if (found.size === 0) return { repaired, lost }
    const parent = commitIn(await source.commits.read(opened.generation))
    const about = {
      kind: 'retry' as const,
      nonce: randomBytes(8).toString('hex'),
      turnId: header.turn_id,
      mixedFrom: state.mixedFrom,
      lastSeq: state.journalLastSeq,
      unstored: state.unstored,
    }
    const { paths, dirs, links } = state
    const { slices, signal } = source.loading
    const made = await commitBehind(source, parent, (generation) =>
      prepareBuilt(
        authorContext(source, options),
        baseOn(parent, generation, state),
        {
          about,
          tree: { paths, dirs, links },
          fill: async (draft) => {
            for (const [id, { bytes, paths: of }] of found)
              await draft.move(id, encodeChunk(bytes, digestOf(bytes)), of)
          },
        },
        slices,
        signal,
      ),
    )
    if (made !== 'lost') return { generation: made.generation, repaired, lost }
    const message = `session ${sessionId} was committed by another host meanwhile: nothing was repaired; try again`
    throw new NexusError('PRECONDITION', message, { op: 'history.repair', key: sessionId })
  })
}

/** Damaged chunks that a local tree holds in their places, each with the files that need it. */
function findHere(
  { state }: LoadedTree,
  damaged: ReadonlyMap<number, Error>,
  treeDir: string,
): Map<number, { bytes: Buffer; paths: Set<string> }> {
  const found = new Map<number, { bytes: Buffer; paths: Set<string> }>()
  const cursor = new TreeCursor(treeDir)
  try {
    for (const path of state.paths) {
      const file = state.files[path]
      for (const [index, id] of file?.chunks.entries() ?? []) {
        if (file === undefined || !damaged.has(id)) continue
        const length = chunkLength(file.size, file.chunkSize, index)
        const bytes = found.get(id)?.bytes ?? readHere(cursor, path, index * file.chunkSize, length)
        if (bytes === undefined || !digestOf(bytes).equals(state.table.digest(id))) continue
        const known = found.get(id)
        if (known === undefined) found.set(id, { bytes, paths: new Set([path]) })
        else known.paths.add(path)
      }
    }
    return found
  } finally {
    cursor.close()
  }
}

function readHere(cursor: TreeCursor, path: string, position: number, length: number): Buffer | undefined {
  try {
    cursor.reset()
    const fd = cursor.openFile(path)
    try {
      const bytes = Buffer.allocUnsafe(length)
      return readSync(fd, bytes, 0, length, position) === length ? bytes : undefined
    } finally {
      closeSync(fd)
    }
  } catch (error) {
    fileFault(error, 'history.repair', path)
    return undefined
  }
}
