import { NexusError } from '@nexus/errors'
import type { ObjectStore } from '@nexus/objectstore'
import type { Manifest } from './manifest.ts'
import type { CommitPair } from './snapshot.ts'

export interface ReadManifestOptions {
  /** An existing directory for a short-lived file. */
  scratchDir: string
  signal?: AbortSignal
}

/**
 * The manifest the store holds now, or undefined when the store itself says that there is none. Any failure of the store
 * rejects. `CORRUPT` when it can't be parsed, `UNSUPPORTED` for an unknown schema version.
 */
export async function readCommittedManifest(
  _store: ObjectStore,
  _sessionId: string,
  _options: ReadManifestOptions,
): Promise<Manifest | undefined> {
  throw new NexusError('INTERNAL', 'readCommittedManifest is not built yet')
}

/**
 * Only who committed last: with `get` it reads the first bytes of the manifest, whatever its size, so that a check at every
 * turn costs the same for any session. Otherwise as {@link readCommittedManifest}.
 */
export async function readCommittedPair(
  _store: ObjectStore,
  _sessionId: string,
  _options: ReadManifestOptions,
): Promise<(CommitPair & { instanceId: string }) | undefined> {
  throw new NexusError('INTERNAL', 'readCommittedPair is not built yet')
}
