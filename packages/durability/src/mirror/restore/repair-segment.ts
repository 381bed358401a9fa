import { readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { isNexusError, systemCode } from '@nexus/errors'
import { rebuildActiveSegment, SEALED_SEGMENT_PATTERN } from '@nexus/journal'
import { trimKeyPrefix } from '@nexus/objectstore'
import { getObject, matches, type Fetched, type FetchOptions } from './fetch.ts'
import { restoring } from '../../layout/staged-tree.ts'
import type { Manifest } from '../manifest/manifest.ts'
import { ACTIVE_SEGMENT_PATH, JOURNAL_DIR } from '../../tree/names.ts'

// Each is a rotation by a snapshot that didn't get to its commit. Many of them mean that something else is wrong.
const MAX_ORPHANS = 16

/**
 * Rebuilds the active journal segment of the committed generation after a rotation emptied it and the snapshot that
 * followed died before its commit: the sealed segment that the rotation made holds the lost lines, and the manifest says
 * up to which event they belong to it. The result counts only when it has the committed digest.
 *
 * @returns whether the segment holds the committed bytes now
 * @see docs/concepts/durability.md
 */
export async function repairActiveSegment(
  manifest: Manifest,
  fetched: Fetched,
  options: FetchOptions,
): Promise<boolean> {
  const entry = manifest.entries[ACTIVE_SEGMENT_PATH]
  if (entry === undefined || manifest.journal.last_seq === 0) return false
  const { tree, scratchDir, logger } = options
  const destPath = join(tree.dir, ACTIVE_SEGMENT_PATH)
  const rebuiltPath = join(scratchDir, 'rebuilt.jsonl')
  for (const name of (await findOrphans(manifest, options)).slice(0, MAX_ORPHANS)) {
    const sealedPath = await fetchOrphan(name, options)
    if (sealedPath === undefined) continue
    try {
      await rebuildActiveSegment({ sealedPath, lastSeq: manifest.journal.last_seq, destPath: rebuiltPath })
    } catch (error) {
      logger.warn({ err: error, segment: name }, 'a sealed segment that no commit names can not be read')
      continue
    }
    const trial = { differing: new Map<string, number>(), cut: [] }
    if (await matches(ACTIVE_SEGMENT_PATH, rebuiltPath, entry, trial, options)) {
      restoring(ACTIVE_SEGMENT_PATH, () => tree.fs.renameSync(rebuiltPath, destPath))
      fetched.differing.delete(ACTIVE_SEGMENT_PATH)
      logger.info({ segment: name, last_seq: manifest.journal.last_seq }, 'rebuilt the active journal segment')
      return true
    }
    rmSync(rebuiltPath, { force: true })
  }
  return false
}

/** Sealed segments in the store that the manifest doesn't name, lowest number first. */
async function findOrphans(manifest: Manifest, options: FetchOptions): Promise<string[]> {
  const named = new Set(manifest.objects)
  const names = options.rawDir === undefined ? await listJournal(options) : namesIn(join(options.rawDir, JOURNAL_DIR))
  return names
    .filter((name) => SEALED_SEGMENT_PATTERN.test(name) && !named.has(`${JOURNAL_DIR}/${name}`))
    .toSorted((a, b) => numberOf(a) - numberOf(b))
}

async function listJournal({ store, treeKey, signal, logger }: FetchOptions): Promise<string[]> {
  const prefix = `${treeKey}/${JOURNAL_DIR}`
  try {
    const objects = await store.list(prefix, { signal })
    return objects.map(({ key }) => trimKeyPrefix(key, prefix) ?? '')
  } catch (error) {
    signal?.throwIfAborted()
    if (isNexusError(error) && error.retryable) throw error
    logger.warn({ err: error }, 'the store can not be listed: no sealed segment to repair the journal from')
    return []
  }
}

async function fetchOrphan(name: string, options: FetchOptions): Promise<string | undefined> {
  const { store, treeKey, signal, rawDir, scratchDir } = options
  if (rawDir !== undefined) return join(rawDir, JOURNAL_DIR, name)
  const localPath = join(scratchDir, name)
  const found = await getObject(store, `${treeKey}/${JOURNAL_DIR}/${name}`, localPath, { signal, bytes: 0 })
  return found ? localPath : undefined
}

function namesIn(dir: string): string[] {
  try {
    return readdirSync(dir)
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return []
    throw error
  }
}

function numberOf(name: string): number {
  return Number(SEALED_SEGMENT_PATTERN.exec(name)?.[1] ?? 0)
}
