import type { Committed, WalkedTree } from '@nexus/durability/tools'

/** One path of a session tree. */
export interface TreeEntry {
  /** Session-relative, with `/`. */
  readonly path: string
  readonly kind: 'file' | 'directory' | 'link'
  /** Bytes of a file; 0 for the others. */
  readonly sizeBytes: number
  /** Permission bits; 0 for a link. */
  readonly mode: number
  /** Nanoseconds since the Unix epoch; of files only. */
  readonly mtimeNs?: bigint
  /** 64 lowercase hex digits; of committed files only. */
  readonly sha256?: string
  /** The text of a link, verbatim. */
  readonly target?: string
}

/** A walked tree as a list, by path. */
export function entriesOfTree({ files, dirs, links }: WalkedTree): TreeEntry[] {
  const entries: TreeEntry[] = []
  for (const [path, { size, mode, mtimeNs }] of files) {
    entries.push({ path, kind: 'file', sizeBytes: size, mode: mode & 0o777, mtimeNs })
  }
  for (const [path, mode] of dirs) entries.push({ path, kind: 'directory', sizeBytes: 0, mode: mode & 0o777 })
  for (const [path, target] of links) entries.push({ path, kind: 'link', sizeBytes: 0, mode: 0, target })
  return entries.toSorted(byPath)
}

/** A commit as a list, by path. It knows of directories only those that are empty or have a mode of their own. */
export function entriesOfCommit({ objects, entries, dirs, links }: Committed): TreeEntry[] {
  const list: TreeEntry[] = objects.map((path) => {
    const entry = entries[path]
    if (entry === undefined) return { path, kind: 'file', sizeBytes: 0, mode: 0o600 }
    const { size, mode, mtime_ns: mtimeNs, sha256 } = entry
    return { path, kind: 'file', sizeBytes: size, mode, mtimeNs: BigInt(mtimeNs), sha256 }
  })
  for (const [path, { mode }] of Object.entries(dirs)) list.push({ path, kind: 'directory', sizeBytes: 0, mode })
  for (const [path, { target }] of Object.entries(links))
    list.push({ path, kind: 'link', sizeBytes: 0, mode: 0, target })
  return list.toSorted(byPath)
}

/** By code unit, as a store lists its keys. */
function byPath(a: TreeEntry, b: TreeEntry): number {
  return a.path < b.path ? -1 : a.path > b.path ? 1 : 0
}
