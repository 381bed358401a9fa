import { closeSync, openSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { fromSystemError } from '@nexus/errors'
import type { Failpoint, Slices } from '@nexus/host'
import { sessionKeys } from '../tree/keys.ts'
import { totalBytes } from '../tree/committed.ts'
import { manifestPieces, type Manifest } from './manifest/manifest.ts'
import { commitMarker, serializeMarker } from './marker.ts'
import type { CapturedTree, CommitFence } from '../layout/layout.ts'
import type { ObjectStore } from '@nexus/objectstore'

/** While a commit overwrites things, the look at who has committed is repeated when it is this old. */
export const CONFIRM_AGE_MS = 1_000

export interface CommitOptions
  extends Omit<CommitFence, 'lost'>, Pick<CapturedTree, 'sequence' | 'trigger' | 'turnId'> {
  store: ObjectStore
  /** An existing directory for the files that are put. */
  stagingDir: string
  failpoint: Failpoint
  slices: Slices
}

/**
 * Commits a generation whose objects are durable. The caller notes the pair on its own disk before the manifest is put, so
 * that a commit whose answer is lost is known for ours later. Putting the manifest commits; the marker only
 * tells people, and may lag by a generation. Each is durable before the next is begun.
 *
 * @returns bytes of the manifest
 */
export async function commitManifest(manifest: Manifest, options: CommitOptions): Promise<number> {
  const { store, stagingDir, sequence, trigger, turnId, signal, beforeCommit, confirm, failpoint, slices } = options
  const keys = sessionKeys(manifest.session_id)
  const manifestPath = join(stagingDir, 'manifest.json')
  const manifestBytes = await writeManifest(manifest, manifestPath, slices)
  const markerPath = join(stagingDir, 'marker.json')
  const bytes = await totalBytes(manifest, slices)
  const run = { sequence, trigger, bytes, ...(turnId === undefined ? {} : { turnId }) }
  locally(markerPath, () => writeFileSync(markerPath, serializeMarker(commitMarker(manifest, run)), { mode: 0o600 }))
  signal?.throwIfAborted()
  await beforeCommit({ generation: manifest.generation, nonce: manifest.nonce })
  await failpoint('snapshot:before-manifest')
  await confirm(0)
  await store.put(keys.manifest, manifestPath, { signal })
  await failpoint('snapshot:manifest-put')
  await store.flush({ signal })
  await failpoint('snapshot:manifest-flushed')
  await confirm(CONFIRM_AGE_MS)
  await store.put(keys.marker, markerPath, { signal })
  await failpoint('snapshot:marker-put')
  await store.flush({ signal })
  await failpoint('snapshot:marker-flushed')
  return manifestBytes
}

async function writeManifest(manifest: Manifest, path: string, slices: Slices): Promise<number> {
  const fd = locally(path, () => openSync(path, 'wx', 0o600))
  let bytes = 0
  try {
    for (const piece of manifestPieces(manifest)) {
      bytes += locally(path, () => writeWhole(fd, Buffer.from(piece)))
      if (slices.due) await slices.pause()
    }
  } finally {
    closeSync(fd)
  }
  return bytes
}

function writeWhole(fd: number, bytes: Buffer): number {
  for (let at = 0; at < bytes.length;) at += writeSync(fd, bytes, at)
  return bytes.length
}

function locally<T>(path: string, run: () => T): T {
  try {
    return run()
  } catch (error) {
    throw fromSystemError(error, 'snapshot.stage', path)
  }
}
