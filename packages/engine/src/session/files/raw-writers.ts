/** A part of the code that writes under a session tree without the workspace helpers, and why that is right. */
export interface SessionTreeWriter {
  /** Path in the repository: a file, or a directory ending in `/` for all that lies below and has no row of its own. */
  source: string
  /** What it writes, session-relative where it lies in the tree. */
  writes: string
  /**
   * How the write becomes known. `emit`: it announces itself. `turn-boundary-only`: the next snapshot finds it.
   * `write-through`: it is uploaded at once under a key made from its content. `excluded-by-design`: it never crosses the
   * object-store seam as it is.
   */
  disposition: 'emit' | 'turn-boundary-only' | 'write-through' | 'excluded-by-design'
  why: string
}

/**
 * The closed list of writers that bypass the workspace helpers. A test holds it against the sources: a file that writes
 * raw bytes and neither announces them nor stands here fails it, and so does a row whose file no longer writes.
 *
 * @see docs/concepts/session.md
 */
export function sessionTreeWriters(): readonly SessionTreeWriter[] {
  return WRITERS
}

const WRITERS: readonly SessionTreeWriter[] = [
  {
    source: 'packages/journal/src/',
    writes: 'journal/ (active segment, rotation, header, rewind)',
    disposition: 'turn-boundary-only',
    why: 'an event about the journal would be journaled itself and cause the next one; every turn end stores the segments',
  },
  {
    source: 'packages/journal/src/replay/tool-cache.ts',
    writes: 'journal/cache/<tool>/<sha256>.json',
    disposition: 'turn-boundary-only',
    why: 'read by replay alone, which needs nothing newer than the last turn end',
  },
  {
    source: 'packages/blobs/src/',
    writes: 'blobs/<xx>/<sha256>.bin and .meta',
    disposition: 'write-through',
    why: 'the name is the digest of the content, so it can be uploaded at any time and never has to be uploaded again',
  },
  {
    source: 'packages/storage/src/',
    writes: 'plugins/<plugin-id>/store.db and copies of it in staging',
    disposition: 'excluded-by-design',
    why: 'a live database is no file to copy: it reaches the store as a checkpointed snapshot only',
  },
  {
    source: 'packages/host/src/lock/',
    writes: 'session.lock',
    disposition: 'excluded-by-design',
    why: 'names a process of this machine; carried elsewhere it would lock every resumed session',
  },
  {
    source: 'packages/engine/src/session/files/append-record.ts',
    writes: 'what session.appendFile() is asked to append',
    disposition: 'emit',
    why: 'the workspace announces each append as it is made, in the order of the changes to a path',
  },
  {
    source: 'packages/engine/src/session/files/last-record.ts',
    writes: 'what a crash left of the last record of a file of JSON lines, beside it',
    disposition: 'emit',
    why: 'the workspace announces the file that appears, and the append that follows',
  },
  {
    source: 'packages/engine/src/session/files/tree-files.ts',
    writes: 'what session.writeFile() is asked to write',
    disposition: 'emit',
    why: 'the workspace announces each change as it is made, in the order of the changes to a path',
  },
  {
    source: 'packages/host/src/',
    writes: 'what its callers name',
    disposition: 'emit',
    why: 'the primitive below the helpers; a caller that goes past them is checked like a caller of node:fs',
  },
  {
    source: 'packages/engine/src/session/workspace.ts',
    writes: 'metadata/session.json when a session is opened',
    disposition: 'turn-boundary-only',
    why: 'there is no journal yet that could record an event; the engine saves the metadata again once there is',
  },
  {
    source: 'packages/engine/src/session/create-tree.ts',
    writes: 'the empty tree of a new session',
    disposition: 'turn-boundary-only',
    why: "a session that doesn't exist yet has no subscribers; its metadata are saved again once the journal runs",
  },
  {
    source: 'packages/engine/src/session/retention.ts',
    writes: 'nothing: renames whole trees before it removes them',
    disposition: 'excluded-by-design',
    why: 'concerns sessions that are not open, and removes local copies only',
  },
  {
    source: 'packages/engine/src/replay/',
    writes: 'metadata/config-snapshot.yaml of a scratch session',
    disposition: 'excluded-by-design',
    why: 'the scratch session is removed after the replay; that of the journal is only read',
  },
  {
    source: 'packages/engine/src/lifecycle/boot/boot.ts',
    writes: 'metadata/config-snapshot.yaml',
    disposition: 'turn-boundary-only',
    why: 'written before the journal runs; the next snapshot stores it',
  },
  {
    source: 'packages/engine/src/lifecycle/shutdown.ts',
    writes: 'metadata/config-snapshot.yaml',
    disposition: 'turn-boundary-only',
    why: 'written when the plugins are down already; the final snapshot stores it',
  },
  {
    source: 'packages/durability/src/blobs/',
    writes: 'blobs/<xx>/<sha256>.bin and .meta that were evicted',
    disposition: 'write-through',
    why: 'comes from the store, under the very key it would be uploaded to',
  },
  {
    source: 'packages/durability/src/boot/',
    writes: 'a tree in staging, its rename into place, and what this machine remembers beside it',
    disposition: 'excluded-by-design',
    why: 'comes from the store, before the session exists here',
  },
  {
    source: 'packages/durability/src/mirror/',
    writes: 'manifest, marker and private copies in staging',
    disposition: 'excluded-by-design',
    why: 'they describe the tree and must not be part of it',
  },
  {
    source: 'packages/durability/src/versioned/',
    writes: 'commits, packs and tombstones on their way to the store, and trees that are restored beside their place',
    disposition: 'excluded-by-design',
    why: 'they lie in staging and are removed after the upload, or become a tree by one rename',
  },
  {
    source: 'packages/durability/src/versioned/record-file.ts',
    writes: 'session.record.jsonl',
    disposition: 'excluded-by-design',
    why: 'says which commits this tree holds; in a tree of another host it would call commits its own that it never made',
  },
  {
    source: 'packages/durability/src/shared/',
    writes: 'store.db files below the storage root, and what this machine remembers of them',
    disposition: 'excluded-by-design',
    why: 'lies outside of any session',
  },
  {
    source: 'packages/durability/src/tree/',
    writes: 'a scratch file to upload',
    disposition: 'excluded-by-design',
    why: 'lies in staging and is removed after the upload',
  },
  {
    source: 'packages/plugins/src/eval/run-eval.ts',
    writes: 'results of an evaluation run, in the directory of the run',
    disposition: 'excluded-by-design',
    why: 'the directory is no session: its sessions lie below it, and a run is published as a whole by publishEvalRun()',
  },
]
