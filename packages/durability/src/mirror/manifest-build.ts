import { MANIFEST_SCHEMA_VERSION, pathRecord, type Manifest, type ManifestEntry, type MixedFrom } from './manifest.ts'
import { immutableKind } from '../tree/names.ts'
import type { Slices } from '@nexus/host'
import type { Unstorable, WalkedTree } from '../tree/tree-walk.ts'

const PERMISSION_BITS = 0o777
const DEFAULT_DIR_MODE = 0o700

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
  mixedFrom?: MixedFrom
  committed?: Manifest
  /** The entry to carry for a path that only the committed generation names; undefined drops it, and it is listed. */
  carry: (path: string) => Promise<ManifestEntry | undefined>
  slices: Slices
}

/**
 * The manifest of a snapshot: the whole committed set. Besides what the tree holds, it goes on naming what a file that
 * can't be stored was in the committed generation, and blobs and swept segments that are in the store but no longer on this
 * disk.
 *
 * @see spec 60, Turn-boundary snapshot; spec 40
 */
export async function buildManifest(parts: ManifestParts): Promise<Manifest> {
  const { tree, stored, committed } = parts
  const entries = new Map(stored)
  const links = new Map(tree.links)
  const carriedDirs = new Map<string, number>()
  const unstored = new Set(tree.unstorable.map(({ path }) => path))
  if (committed !== undefined) {
    const isUnstorable = coveredBy(tree.unstorable)
    const isFree = freePlaces(tree, stored)
    for (const path of committed.objects) {
      if (parts.slices.due) await parts.slices.pause()
      const evicted = (isBlob(path) || parts.swept.has(path)) && !tree.files.has(path)
      if (entries.has(path) || !(evicted || isUnstorable(path)) || !isFree(path)) continue
      const entry = await parts.carry(path)
      if (entry === undefined) unstored.add(path)
      else entries.set(path, entry)
    }
    for (const [path, { target }] of Object.entries(committed.links)) {
      if (isUnstorable(path) && isFree(path) && !links.has(path)) links.set(path, target)
    }
    for (const [path, { mode }] of Object.entries(committed.dirs)) {
      if (isUnstorable(path) && isFree(path)) carriedDirs.set(path, mode)
    }
  }
  const objects = [...entries.keys()].toSorted()
  return {
    _schema_version: MANIFEST_SCHEMA_VERSION,
    session_id: parts.sessionId,
    generation: parts.generation,
    nonce: parts.nonce,
    instance_id: parts.instanceId,
    completed_at: parts.completedAt,
    key_prefix: parts.keyPrefix,
    objects,
    entries: await recordEntries(objects, entries, parts.slices),
    dirs: recordDirs(new Map([...carriedDirs, ...tree.dirs]), objects, links.keys()),
    links: record([...links.keys()].toSorted(), (path) => ({ target: links.get(path) ?? '' })),
    journal: { last_seq: parts.lastSeq },
    unstored: [...unstored].toSorted(),
    ...(parts.mixedFrom === undefined ? {} : { mixed_from: parts.mixedFrom }),
  }
}

function isBlob(path: string): boolean {
  const kind = immutableKind(path)
  return kind === 'blob' || kind === 'blob-meta'
}

/** Tells whether a path is, or lies below, something that could not be stored. */
function coveredBy(unstorable: readonly Unstorable[]): (path: string) => boolean {
  const exact = new Set<string>()
  const trees = new Set<string>()
  for (const { path, tree } of unstorable) (tree ? trees : exact).add(path)
  return (path) => exact.has(path) || trees.has(path) || ancestorsOf(path).some((above) => trees.has(above))
}

/** Tells whether a carried path can exist beside what the tree holds now. */
function freePlaces(tree: WalkedTree, stored: ReadonlyMap<string, unknown>): (path: string) => boolean {
  const isLeaf = (path: string): boolean => stored.has(path) || tree.links.has(path)
  return (path) => !tree.dirs.has(path) && !tree.links.has(path) && !ancestorsOf(path).some(isLeaf)
}

/** Directories that don't come into being by themselves when the objects are written: empty ones, and unusual modes. */
function recordDirs(
  dirs: ReadonlyMap<string, number>,
  objects: readonly string[],
  links: Iterable<string>,
): Manifest['dirs'] {
  const implied = new Set<string>()
  const imply = (path: string): void => {
    for (let at = path.lastIndexOf('/'); at !== -1; at = path.lastIndexOf('/', at - 1)) {
      const parent = path.slice(0, at)
      if (implied.has(parent)) return
      implied.add(parent)
    }
  }
  for (const path of objects) imply(path)
  for (const path of links) imply(path)
  const out: [string, number][] = []
  // Children sort after their parents, so backwards every directory is asked about after what lies below it.
  for (const path of [...dirs.keys()].toSorted().toReversed()) {
    const mode = (dirs.get(path) ?? 0) & PERMISSION_BITS
    if (mode === DEFAULT_DIR_MODE && implied.has(path)) continue
    out.push([path, mode])
    imply(path)
  }
  const modes = new Map(out)
  return record([...modes.keys()].toSorted(), (path) => ({ mode: modes.get(path) ?? DEFAULT_DIR_MODE }))
}

async function recordEntries(
  objects: readonly string[],
  entries: ReadonlyMap<string, ManifestEntry>,
  slices: Slices,
): Promise<Manifest['entries']> {
  const out = pathRecord<ManifestEntry>()
  for (const path of objects) {
    if (slices.due) await slices.pause()
    const entry = entries.get(path)
    if (entry !== undefined) out[path] = entry
  }
  return out
}

function record<T>(paths: readonly string[], valueOf: (path: string) => T | undefined): Record<string, T> {
  const out = pathRecord<T>()
  for (const path of paths) {
    const value = valueOf(path)
    if (value !== undefined) out[path] = value
  }
  return out
}

function ancestorsOf(path: string): string[] {
  const out: string[] = []
  for (let at = path.indexOf('/'); at !== -1; at = path.indexOf('/', at + 1)) out.push(path.slice(0, at))
  return out
}
