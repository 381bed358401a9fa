import type { Slices } from '@nexus/host'

/** What names a commit: no two commits share both. */
export interface CommitPair {
  /** Grows across runs; gaps are normal. */
  generation: number
  /** Random per commit: tells our commit N from another host's commit N. */
  nonce: string
}

/** Who committed a generation. */
export interface CommitHead extends CommitPair {
  /** The engine instance; '' when it isn't known. */
  instanceId: string
}

/** What a commit knows of one file. */
export interface CommittedFile {
  /** Bytes that were stored. */
  size: number
  /** Permission bits, `0` to `0o777`; never setuid, setgid or sticky. */
  mode: number
  /** Nanoseconds since the Unix epoch as a decimal string: a JSON number would lose digits. */
  mtime_ns: string
  /** 64 lowercase hex digits, of the bytes that were stored; see {@link CommittedFile.chunkSize}. */
  sha256: string
  /**
   * Where it is given, `sha256` of a larger file is that of the digests of its chunks of so many bytes, 32 bytes each, one behind
   * the other.
   */
  readonly chunkSize?: number
}

/** A directory that is empty, or whose mode isn't 0700. */
export interface CommittedDir {
  mode: number
}

/** A symbolic link. */
export interface CommittedLink {
  /** Its text, verbatim: never resolved, and allowed to point nowhere or outside. */
  target: string
}

/** A mixture that a hydration found and this lineage carries on from. */
export interface MixedFrom {
  generation: number
  paths: string[]
}

/**
 * One generation of a session, whatever the layout that holds it: the whole committed set, and not what one turn uploaded.
 * Field names are those of the interchange format. The records keyed by path have no prototype, so that a file named
 * `__proto__` is a file like any other.
 */
export interface Committed extends CommitPair {
  instance_id: string
  /** Session-relative paths of all files, sorted by code unit. */
  objects: string[]
  /** One entry per file; none in a commit of an older build, which knew paths alone. */
  entries: Record<string, CommittedFile>
  dirs: Record<string, CommittedDir>
  links: Record<string, CommittedLink>
  journal: { last_seq: number }
  /** Paths that this generation could not store; see `SnapshotResult`. */
  unstored: string[]
  mixed_from?: MixedFrom
}

/** Who made a commit that is known whole. */
export function headOf({ generation, nonce, instance_id: instanceId }: Committed): CommitHead {
  return { generation, nonce, instanceId }
}

/** Bytes of all files of a commit. */
export async function totalBytes({ objects, entries }: Committed, slices: Slices): Promise<number> {
  let sum = 0
  for (const path of objects) {
    if (slices.due) await slices.pause()
    sum += entries[path]?.size ?? 0
  }
  return sum
}

/** An empty record keyed by path: without a prototype, since a path may be `__proto__` or `constructor`. */
export function pathRecord<T>(): Record<string, T> {
  return Object.create(null) as Record<string, T>
}
