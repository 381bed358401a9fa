import type { Logger, Slices } from '@nexus/host'
import { isEnginePlace, isLocalPath, neverCrosses } from '../tree/names.ts'
import { pathRecord, type Manifest } from './manifest.ts'

/**
 * A manifest without what never crosses: named by another build, or by somebody who wants the place of our lock. Links
 * in the engine's own places are left out as well.
 *
 * @see docs/formats/object-store.md
 */
export async function scrubManifest(manifest: Manifest, logger: Logger, slices: Slices): Promise<Manifest> {
  const { objects, entries, dirs, links } = manifest
  const left: string[] = []
  for (const path of objects) {
    if (neverCrosses(path)) left.push(path)
    if (slices.due) await slices.pause()
  }
  if (left.length > 0) {
    const session = { session_id: manifest.session_id }
    logger.warn({ ...session, paths: left }, 'the manifest names what never leaves a machine: left out')
  }
  const misplaced = Object.keys(links).filter(isEnginePlace)
  if (misplaced.length > 0) {
    const session = { session_id: manifest.session_id }
    logger.warn({ ...session, paths: misplaced }, 'the manifest names links where the engine writes: left out')
  }
  const kept = left.length === 0 ? objects : without(objects, left)
  return {
    ...manifest,
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
