import type { Committed, MixedFrom } from '../../tree/committed.ts'
import { MANIFEST_SCHEMA_VERSION, type Manifest, type ManifestEntry } from './manifest.ts'
import { NexusError } from '@nexus/errors'
import { ENGINE_DIRECTORIES, immutableKind } from '../../tree/names.ts'
import { conflictSteps } from './parse.ts'
import { coveredBy, DEFAULT_DIR_MODE, freePlaces, record, recordDirs } from '../../capture/carried-places.ts'
import { type Slices, forEachSliced, sortSliced } from '@nexus/host'
import type { WalkedTree } from '../../tree/tree-walk.ts'

/** What a manifest is made from. */
export interface ManifestParts {
  sessionId: string
  generation: number
  nonce: string
  instanceId: string
  completedAt: string
  keyPrefix: string
  tree: WalkedTree
  stored: ReadonlyMap<string, ManifestEntry>
  lastSeq: number
  /** Paths of journal segments that were removed from this disk because a commit holds them. */
  swept: ReadonlySet<string>
  mixedFrom: MixedFrom | undefined
  committed: Committed | undefined
  /** The entry to carry for a path that only the committed generation names; undefined drops it, and it is listed. */
  carry: (path: string) => Promise<ManifestEntry | undefined>
  slices: Slices
}

/**
 * The manifest of a snapshot: the whole committed set. Besides what the tree holds, it goes on naming what a file that
 * can't be stored was in the committed generation, and blobs and swept segments that are in the store but no longer on this
 * disk.
 *
 * @see docs/formats/object-store.md
 */
export async function buildManifest(parts: ManifestParts): Promise<Manifest> {
  const { tree, stored, committed, slices } = parts
  const carried = new Map<string, ManifestEntry>()
  const links = new Map(tree.links)
  const dirs = new Map(tree.dirs)
  const unstored = new Set(tree.unstorable.map(({ path }) => path))
  if (committed !== undefined) {
    const isUnstorable = coveredBy(tree.unstorable)
    const isFree = freePlaces(tree, stored)
    for (const path of committed.objects) {
      if (slices.due) await slices.pause()
      if (stored.has(path)) continue
      const evicted = (isBlob(path) || parts.swept.has(path)) && !tree.files.has(path)
      if (!(evicted || isUnstorable(path)) || !isFree(path)) continue
      const entry = await parts.carry(path)
      if (entry === undefined) unstored.add(path)
      else carried.set(path, entry)
    }
    if (tree.unstorable.length > 0) {
      await forEachSliced(Object.keys(committed.links), slices, (path) => {
        const target = committed.links[path]?.target ?? ''
        if (isUnstorable(path) && isFree(path) && !links.has(path)) links.set(path, target)
      })
      await forEachSliced(Object.keys(committed.dirs), slices, (path) => {
        if (isUnstorable(path) && isFree(path)) dirs.set(path, committed.dirs[path]?.mode ?? DEFAULT_DIR_MODE)
      })
    }
  }
  const objects = await sortSliced(concat(stored.keys(), carried.keys()), slices)
  const manifest: Manifest = {
    _schema_version: MANIFEST_SCHEMA_VERSION,
    session_id: parts.sessionId,
    generation: parts.generation,
    nonce: parts.nonce,
    instance_id: parts.instanceId,
    completed_at: parts.completedAt,
    key_prefix: parts.keyPrefix,
    objects,
    entries: await record(objects, slices, (path) => stored.get(path) ?? carried.get(path)),
    dirs: await recordDirs(dirs, objects, links, slices),
    links: await record(await sortSliced(links.keys(), slices), slices, (path) => ({ target: links.get(path) ?? '' })),
    journal: { last_seq: parts.lastSeq },
    unstored: await sortSliced(unstored, slices),
    ...(parts.mixedFrom === undefined ? {} : { mixed_from: parts.mixedFrom }),
  }
  await refuseUnresumable(manifest, slices)
  return manifest
}

/**
 * What no host could restore is not committed, whatever put it together.
 *
 * @throws NexusError `CORRUPT` naming the path
 */
async function refuseUnresumable(manifest: Manifest, slices: Slices): Promise<void> {
  const isLeaf = (path: string): boolean => manifest.entries[path] !== undefined || manifest.links[path] !== undefined
  const misplaced = ENGINE_DIRECTORIES.find(isLeaf)
  if (misplaced !== undefined) {
    const message = `${misplaced} is no directory, and the engine keeps something of its own there: move it away`
    throw new NexusError('CORRUPT', message, { op: 'snapshot', key: misplaced })
  }
  const steps = conflictSteps(manifest)
  while (steps.next().done !== true) if (slices.due) await slices.pause()
}

function* concat<T>(...lists: Iterable<T>[]): Generator<T> {
  for (const list of lists) yield* list
}

function isBlob(path: string): boolean {
  const kind = immutableKind(path)
  return kind === 'blob' || kind === 'blob-meta'
}
