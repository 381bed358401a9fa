import { lstatSync, mkdirSync, renameSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { fromSystemError, isNexusError, NexusError } from '@nexus/errors'
import { engineTempName, type Logger, noFailpoint, silentLogger } from '@nexus/host'
import type { ObjectStore } from '@nexus/objectstore'
import { restoreAttributes, StagedTree } from '../../layout/staged-tree.ts'
import { removeStagingDir } from '../../tree/staging.ts'
import { DamagedObjectError, type ObjectRange } from '../format/bytes/damage.ts'
import { type LoadedTree, loadTree } from '../store/read/load-tree.ts'
import { GoneObjectError } from '../store/range-reader.ts'
import { restoreTree } from '../store/read/restore-tree.ts'
import {
  type HistoryOptions,
  type HistorySource,
  lowestReadable,
  newestGeneration,
  openGeneration,
  orReclaimed,
  readableGeneration,
  withSource,
} from './history-source.ts'
import { chunksOf, loadIntact, type LostPart, withoutDamage } from './salvage.ts'

/** What a restore brought back. */
export interface RestoredSession {
  generation: number
  files: number
  bytes: number
  /** What a salvage could not bring back, by path; empty otherwise. */
  lost: readonly LostPart[]
}

/** What is restored, and where to. */
export interface RestoreSessionOptions extends HistoryOptions {
  /** Default: the newest. */
  generation?: number | undefined
  /** A directory that doesn't exist yet, in one that does. */
  to: string
  /** Bring back what isn't damaged, and list what is lost. Default false: all or nothing. */
  salvage?: boolean | undefined
  logger?: Logger | undefined
}

/**
 * Writes the tree of one generation to a directory that doesn't exist yet, whole or not at all. The bucket is only read.
 *
 * @throws NexusError `PRECONDITION` when the directory exists, `NOT_FOUND` when the generation was reclaimed, `CORRUPT` naming
 *   the newest generation that doesn't need what is damaged
 * @see docs/guides/time-travel.md
 */
export async function restoreSession(
  store: ObjectStore,
  sessionId: string,
  { generation: wanted, to, salvage = false, logger = silentLogger, ...options }: RestoreSessionOptions,
): Promise<RestoredSession> {
  if (lstatSync(to, { throwIfNoEntry: false }) !== undefined) {
    const message = `${to} exists: name a directory that doesn't`
    throw new NexusError('PRECONDITION', message, { op: 'history.restore', key: to })
  }
  return await withSource(store, sessionId, options, async (source) => {
    const staging = join(dirname(to), engineTempName())
    try {
      const { generation, loaded, lost } = salvage
        ? await salvageable(source, wanted)
        : { ...(await whole(source, wanted)), lost: [] }
      mkdirSync(staging, { mode: 0o700 })
      const tree = new StagedTree(staging)
      const { content, objects, bytes } = await orReclaimed(source, generation, () =>
        restoreTree(tree, loaded, sessionId, { ...source.loading, logger }),
      )
      await restoreAttributes(tree, content, { slices: source.loading.slices, failpoint: noFailpoint })
      renameSync(staging, to)
      return { generation, files: objects, bytes, lost }
    } catch (error) {
      if (!isNexusError(error)) throw fromSystemError(error, 'history.restore', basename(to))
      throw isNexusError(error, 'CORRUPT') && !salvage ? await withWayOut(source, error) : error
    } finally {
      await removeStagingDir(staging)
    }
  })
}

async function whole(source: HistorySource, wanted?: number): Promise<{ generation: number; loaded: LoadedTree }> {
  const loaded = await openGeneration(source, wanted)
  return { generation: loaded.generation, loaded }
}

async function salvageable(
  source: HistorySource,
  wanted?: number,
): Promise<{ generation: number; loaded: LoadedTree; lost: LostPart[] }> {
  const generation = await readableGeneration(source, wanted)
  return { generation, ...(await withoutDamage(source, await loadIntact(source, generation))) }
}

/** The same error, naming the newest generation that doesn't need what is damaged: generations share objects. */
async function withWayOut(source: HistorySource, error: NexusError): Promise<NexusError> {
  const key = error.key ?? source.sessionId
  const range = error instanceof DamagedObjectError ? error.range : undefined
  const intact = await newestWithout(source, key, range).catch(() => undefined)
  const other = intact === undefined ? '' : `generation ${intact} does not need it; or `
  const message = `${error.message}. To restore what can be had: ${other}--salvage takes everything that is not damaged`
  return new NexusError('CORRUPT', message, { op: 'history.restore', key, cause: error })
}

/** So many generations are looked at for one that is whole. */
const MOST_LOOKED_AT = 100

async function newestWithout(
  source: HistorySource,
  object: string,
  range: ObjectRange | undefined,
): Promise<number | undefined> {
  const { objects, loading } = source
  const head = await newestGeneration(source)
  const lowest = Math.max(await lowestReadable(source, head), head - MOST_LOOKED_AT + 1)
  for (let generation = head; generation >= lowest; generation--) {
    try {
      const commit = await objects.readWhole(generation, loading.signal)
      if (commit === undefined || commit.header.kind === 'removed') return undefined
      const loaded = await loadTree(objects, commit, loading)
      if (!needs(loaded, object, range)) return generation
    } catch (error) {
      if (!isNexusError(error, 'CORRUPT') && !(error instanceof GoneObjectError)) throw error
    }
  }
  return undefined
}

/** Whether any file lies in these bytes of an object; in any of it, where no range is known. */
function needs(loaded: LoadedTree, object: string, range: ObjectRange | undefined): boolean {
  const { packs } = loaded.state
  for (const { n, offset, length } of chunksOf(loaded)) {
    const pack = packs.get(n)
    if (pack?.name !== object) continue
    const from = pack.base + offset
    if (range === undefined || (from < range.offset + range.length && range.offset < from + length)) return true
  }
  return false
}
