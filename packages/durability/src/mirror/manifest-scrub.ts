import type { Logger } from '@nexus/host'
import { isLocalPath, neverCrosses } from '../tree/keys.ts'
import { pathRecord, type Manifest } from './manifest.ts'

/** Where the engine and its packages write by a path of their own: a link there would lead them out of the session. */
const ENGINE_PLACE =
  /^(?:blobs|context|files|journal|metadata|plugins)$|^(?:journal|metadata)\/|^plugins\/[^/]+(?:\/store\.db)?$/

/**
 * A manifest without what never crosses: named by another build, or by somebody who wants the place of our lock. Links
 * in the engine's own places are left out as well.
 *
 * @see spec 60, Keys
 */
export function scrubManifest(manifest: Manifest, logger: Logger): Manifest {
  const { objects, entries, dirs, links } = manifest
  const left = objects.filter(neverCrosses)
  if (left.length > 0) {
    const session = { session_id: manifest.session_id }
    logger.warn({ ...session, paths: left }, 'the manifest names what never leaves a machine: left out')
  }
  const misplaced = Object.keys(links).filter((path) => ENGINE_PLACE.test(path))
  if (misplaced.length > 0) {
    const session = { session_id: manifest.session_id }
    logger.warn({ ...session, paths: misplaced }, 'the manifest names links where the engine writes: left out')
  }
  const kept = left.length === 0 ? objects : objects.filter((path) => !neverCrosses(path))
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
      Object.keys(links).filter((path) => !isLocalPath(path) && !ENGINE_PLACE.test(path)),
    ),
  }
}

function pick<T>(from: Readonly<Record<string, T>>, paths: readonly string[]): Record<string, T> {
  const out = pathRecord<T>()
  for (const path of paths) {
    const value = from[path]
    if (value !== undefined) out[path] = value
  }
  return out
}
