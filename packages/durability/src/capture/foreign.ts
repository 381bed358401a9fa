import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { isNexusError } from '@nexus/errors'
import type { TreeCursor } from '@nexus/host'
import type { DatabaseCapture } from './databases.ts'
import type { WalkedTree } from '../tree/tree-walk.ts'
import { inodeAt, staged } from './stage.ts'
import type { StagedFile } from './stage.ts'

const SIDECAR_SUFFIXES = ['-wal', '-shm', '-journal']

export interface ForeignOptions {
  cursor: TreeCursor
  stagingDir: string
  databases: DatabaseCapture | undefined
  signal?: AbortSignal | undefined
}

/** What became of a file that looks like somebody's SQLite database. */
type Copied = { kind: 'copied'; file: StagedFile } | { kind: 'plain' } | { kind: 'unstorable'; why: string }

/**
 * SQLite files in the tree that the storage manager doesn't own, known by what lies beside them and never opened to find
 * out. They are copied through SQLite: a plain copy beside a hot journal is half a transaction.
 *
 * @see docs/concepts/durability.md
 */
export class ForeignDatabases {
  readonly #options: ForeignOptions
  readonly #known = new Map<string, Copied>()
  #copies = 0

  constructor(options: ForeignOptions) {
    this.#options = options
  }

  /**
   * Copies what the tree holds, each database once per snapshot, and takes databases and sidecars out of the tree's files.
   *
   * @param managed paths that have a copy already
   * @param certain paths that were seen to be databases although nothing lies beside them now
   * @returns copies by path. What can't be copied joins the tree's `unstorable`
   */
  async extract(
    tree: WalkedTree,
    managed: { has(path: string): boolean },
    certain: Iterable<string>,
  ): Promise<Map<string, StagedFile>> {
    const copies = new Map<string, StagedFile>()
    const candidates = findCandidates(tree)
    for (const path of certain) if (tree.files.has(path) && !candidates.has(path)) candidates.set(path, [])
    for (const [path, sidecars] of candidates) {
      if (isAllEmpty([path, ...sidecars], tree)) continue
      const outcome = managed.has(path) ? undefined : await this.#copy(path)
      if (outcome?.kind === 'plain') continue
      for (const sidecar of sidecars) tree.files.delete(sidecar)
      if (outcome === undefined) continue
      tree.files.delete(path)
      if (outcome.kind === 'copied') copies.set(path, outcome.file)
      else tree.unstorable.push({ path, why: outcome.why, tree: false })
    }
    return copies
  }

  async #copy(path: string): Promise<Copied> {
    const known = this.#known.get(path)
    if (known !== undefined) return known
    const outcome = await this.#copyNow(path)
    this.#known.set(path, outcome)
    return outcome
  }

  async #copyNow(path: string): Promise<Copied> {
    const { databases, cursor, stagingDir, signal } = this.#options
    if (databases === undefined)
      return { kind: 'unstorable', why: 'it is a SQLite database, and no storage manager is open' }
    const dir = join(stagingDir, 'foreign')
    mkdirSync(dir, { recursive: true, mode: 0o700 })
    const livePath = join(cursor.root, path)
    const localPath = join(dir, `${this.#copies++}`)
    try {
      const before = inodeAt(cursor, path)
      const { sizeBytes } = await databases.copyForeign(livePath, localPath, signal)
      const after = inodeAt(cursor, path)
      // SQLite opens by name, and may have followed a link that was there for a moment.
      if (before === undefined || after?.ino !== before.ino || after.dev !== before.dev) {
        return { kind: 'unstorable', why: 'it was replaced while it was copied' }
      }
      return { kind: 'copied', file: staged(path, localPath, sizeBytes, livePath) }
    } catch (error) {
      signal?.throwIfAborted()
      if (isNotADatabase(error)) return { kind: 'plain' }
      if (isNexusError(error, 'CLOSED') || isNexusError(error, 'LOCAL_IO')) throw error
      return { kind: 'unstorable', why: error instanceof Error ? error.message : String(error) }
    }
  }
}

/** Files with the name of a sidecar beside them, with those sidecars. */
function findCandidates(tree: WalkedTree): Map<string, string[]> {
  const candidates = new Map<string, string[]>()
  const look = (sidecar: string): void => {
    // Asked of every path of the tree.
    const suffix = SIDECAR_SUFFIXES.find((each) => sidecar.endsWith(each))
    if (suffix === undefined) return
    const path = sidecar.slice(0, -suffix.length)
    if (!tree.files.has(path)) return
    const known = candidates.get(path)
    if (known === undefined) candidates.set(path, [sidecar])
    else known.push(sidecar)
  }
  for (const path of tree.files.keys()) look(path)
  for (const path of tree.sidecars) look(path)
  return candidates
}

// Two files without a byte are nothing that SQLite would have to be asked about, and may well be somebody's.
function isAllEmpty(paths: readonly string[], tree: WalkedTree): boolean {
  return paths.every((path) => tree.files.get(path)?.size === 0)
}

// By name and not by class: the storage package may be installed twice.
function isNotADatabase(error: unknown): boolean {
  return isNexusError(error, 'UNSUPPORTED') && error.name === 'NotADatabaseError'
}
