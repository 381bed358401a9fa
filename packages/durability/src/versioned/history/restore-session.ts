import { lstatSync, mkdirSync, renameSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { fromSystemError, NexusError } from '@nexus/errors'
import { engineTempName, type Logger, noFailpoint, silentLogger } from '@nexus/host'
import { restoreAttributes, StagedTree } from '../../layout/staged-tree.ts'
import { removeStagingDir } from '../../tree/staging.ts'
import { restoreTree } from '../store/read/restore-tree.ts'
import { type HistoryOptions, type HistorySource, openGeneration, orReclaimed, settled } from './history-source.ts'

/** What a restore brought back. */
export interface RestoredSession {
  generation: number
  files: number
  bytes: number
}

/**
 * Writes the tree of one generation to a directory that doesn't exist yet, whole or not at all. The bucket is only read.
 *
 * @throws NexusError `PRECONDITION` when the directory exists, `NOT_FOUND` when the generation was reclaimed, `CORRUPT`
 */
export async function restoreSession(
  source: HistorySource,
  {
    generation,
    to,
    logger = silentLogger,
    ...rest
  }: HistoryOptions & { generation: number; to: string; logger?: Logger },
): Promise<RestoredSession> {
  if (lstatSync(to, { throwIfNoEntry: false }) !== undefined) {
    throw new NexusError('PRECONDITION', `${to} exists: name a directory that doesn't`, {
      op: 'history.restore',
      key: to,
    })
  }
  const options = settled(rest)
  const staging = join(dirname(to), engineTempName())
  try {
    mkdirSync(staging, { mode: 0o700 })
    const loaded = await openGeneration(source, generation, options)
    const tree = new StagedTree(staging)
    const { sessionId } = source.objects.place
    const { content, objects, bytes } = await orReclaimed(source, generation, () =>
      restoreTree(tree, loaded, sessionId, { ...options, logger }),
    )
    await restoreAttributes(tree, content, { slices: options.slices, failpoint: noFailpoint })
    renameSync(staging, to)
    return { generation, files: objects, bytes }
  } catch (error) {
    throw error instanceof NexusError ? error : fromSystemError(error, 'history.restore', basename(to))
  } finally {
    await removeStagingDir(staging)
  }
}
