import type { ObjectStore } from '@nexus/objectstore'
import type { Clock, Failpoint, Logger } from '@nexus/host'
import type { HydrateFs } from './hydrate-restore.ts'
import { HydrateRun } from './hydrate-run.ts'
import type { Manifest } from '../mirror/manifest.ts'

export interface HydrateOptions {
  store: ObjectStore
  sessionId: string
  sessionsRoot: string
  /** Called with the fresh staging directory before anything is fetched: writes our lock into it. */
  prepareStaging: (dir: string) => Promise<void>
  /** What a mixture does: `fail` rejects with `CORRUPT`, `warn` reports it in the result. */
  onMixed: 'auto' | 'warn' | 'fail'
  signal?: AbortSignal
  clock?: Clock
  logger?: Logger
  failpoint?: Failpoint
  /** Downloads in flight, default 16. */
  concurrency?: number
  fs?: HydrateFs
}

/** Files that don't hold what the manifest says, because an interrupted snapshot overwrote them in place. */
export interface Mixture {
  /** The committed generation; 0 when there is no manifest. */
  generation: number
  reason: string
  /** Session-relative; empty when there is no manifest to tell. */
  paths: string[]
}

export interface HydrateResult {
  /**
   * `hydrated`: the tree is at `<root>/<id>` as the manifest says. `unversioned`: no manifest, everything under the prefix
   * is there. `never-seen`: the store says that it has nothing; nothing was created.
   */
  outcome: 'hydrated' | 'never-seen' | 'unversioned'
  manifest?: Manifest
  mixed?: Mixture
  objects: number
  bytes: number
  durationMs: number
}

/**
 * Restores a session tree from the store to `<sessionsRoot>/<sessionId>`, whole or not at all: it appears there by one
 * rename, with our lock in it.
 *
 * Rejects with `CORRUPT` and the path when the manifest is damaged or names an object that is missing, `UNSUPPORTED` for
 * an unknown schema version, `PRECONDITION` when the tree exists already, and with the store's own error when it fails.
 *
 * @see spec 60, Hydration
 */
export async function hydrateSession(options: HydrateOptions): Promise<HydrateResult> {
  return new HydrateRun(options).run()
}
