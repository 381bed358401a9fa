import type { Logger, Slices } from '@nexus/host'
import { type Committed, pathRecord } from '../tree/committed.ts'
import { isEnginePlace, isLocalPath, neverCrosses } from '../tree/names.ts'

/**
 * A commit without what never crosses: named by another build, or by somebody who wants the place of our lock. Links
 * in the engine's own places are left out as well.
 *
 * @see docs/formats/object-store.md
 */
export async function scrubCommitted<T extends Committed>(
  committed: T,
  sessionId: string,
  logger: Logger,
  slices: Slices,
): Promise<T> {
  const { objects, entries, dirs, links } = committed
  const session = { session_id: sessionId }
  const left: string[] = []
  for (const path of objects) {
    if (neverCrosses(path)) left.push(path)
    if (slices.due) await slices.pause()
  }
  if (left.length > 0) {
    logger.warn({ ...session, paths: left }, 'the commit names what never leaves a machine: left out')
  }
  const misplaced = Object.keys(links).filter(isEnginePlace)
  if (misplaced.length > 0) {
    logger.warn({ ...session, paths: misplaced }, 'the commit names links where the engine writes: left out')
  }
  const kept = left.length === 0 ? objects : without(objects, left)
  return {
    ...committed,
    objects: kept,
    entries: left.length === 0 ? entries : pick(entries, kept),
    dirs: pick(
      dirs,
      Object.keys(dirs).filter((path) => !isLocalPath(path)),
    ),
    links: pick(
      links,
      Object.keys(links).filter((path) => !isLocalPath(path) && !isEnginePlace(path)),
    ),
  }
}

function without(paths: readonly string[], left: readonly string[]): string[] {
  const gone = new Set(left)
  return paths.filter((path) => !gone.has(path))
}

function pick<T>(from: Readonly<Record<string, T>>, paths: readonly string[]): Record<string, T> {
  const out = pathRecord<T>()
  for (const path of paths) {
    const value = from[path]
    if (value !== undefined) out[path] = value
  }
  return out
}
