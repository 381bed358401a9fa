import { type Clock, type Failpoint, noFailpoint, Slices } from '@nexus/host'
import type { Containers, Found } from '../../core/commit-facts.ts'
import type { CommitStore } from '../../core/commit-store.ts'
import type { ReclaimStore } from '../../core/reclaim.ts'
import {
  commitKey,
  folderKey,
  folderOf,
  FOLDER_SIZE,
  type PackName,
  packKey,
  packsKey,
  parseName,
  type VersionedName,
} from '../../core/versioned-keys.ts'
import { encodeTombstone, TOMBSTONE_BYTES } from '../../format/tombstone.ts'
import { containersOf } from '../containers.ts'
import { readPacks } from '../read/load-tree.ts'
import { type SessionObjects, type SessionPlace, waiting } from '../session-objects.ts'

const CONCURRENCY = 16

/** Failpoints of taking objects away; each is passed once per object. */
export const RECLAIM_FAILPOINTS: readonly string[] = ['reclaim:buried', 'reclaim:pack-deleted']

/** The objects of one session, for reclaim. */
export class SessionReclaimStore implements ReclaimStore {
  readonly #commits: CommitStore
  readonly #objects: SessionObjects
  readonly #place: SessionPlace
  readonly #clock: Clock
  readonly #signal: AbortSignal | undefined
  readonly #failpoint: Failpoint
  /** Generations that aren't tombstones, below {@link #seenBelow}; undefined before the first listing. */
  #unburied: Set<number> | undefined
  #seenBelow = 0

  constructor(
    commits: CommitStore,
    objects: SessionObjects,
    {
      clock,
      signal,
      failpoint = noFailpoint,
    }: { clock: Clock; signal?: AbortSignal | undefined; failpoint?: Failpoint | undefined },
  ) {
    this.#commits = commits
    this.#objects = objects
    this.#place = objects.place
    this.#clock = clock
    this.#signal = signal
    this.#failpoint = failpoint
  }

  list(folder: number): Promise<readonly number[]> {
    return this.#commits.list(folder)
  }

  read(generation: number): Promise<Found> {
    return this.#commits.read(generation)
  }

  hint(): Promise<number | undefined> {
    return this.#commits.hint()
  }

  async containers(generation: number): Promise<Containers | undefined> {
    const commit = await this.#objects.readWhole(generation, this.#signal)
    if (commit === undefined) return undefined
    const options = { slices: new Slices({ signal: this.#signal }), concurrency: CONCURRENCY, signal: this.#signal }
    const { packs } = await readPacks(this.#objects, commit, options)
    return containersOf(packs, generation)
  }

  /**
   * Listed once. From there on this process knows what it buried, so that a run costs no listing of commits. Folders are
   * looked through from the highest down to one that holds nothing but tombstones: a killed run leaves its gaps near the end.
   */
  async unburied(below: number): Promise<readonly number[]> {
    if (this.#unburied === undefined) {
      // Kept only when it is whole: a listing that broke off says nothing of the rest.
      this.#unburied = await this.#listUnburied(below)
      this.#seenBelow = below
    }
    for (let generation = this.#seenBelow; generation < below; generation++) this.#unburied.add(generation)
    this.#seenBelow = Math.max(this.#seenBelow, below)
    return [...this.#unburied].filter((generation) => generation < below).toSorted((a, b) => a - b)
  }

  async packs(): Promise<readonly PackName[]> {
    const names = await this.#listNames(packsKey(this.#place.root))
    return names.flatMap(({ name }) => (name.is === 'pack' ? name.pack : []))
  }

  async bury(generation: number): Promise<void> {
    const { sessionId, root } = this.#place
    const tombstone = encodeTombstone({ sessionId, generation, atMs: this.#clock.now() })
    await this.#objects.put(commitKey(root, generation), tombstone, this.#signal)
    this.#unburied?.delete(generation)
    await this.#failpoint('reclaim:buried')
  }

  async deletePack(pack: PackName): Promise<void> {
    await this.#place.store.delete(packKey(this.#place.root, pack), waiting(this.#signal))
    await this.#failpoint('reclaim:pack-deleted')
  }

  async #listUnburied(below: number): Promise<Set<number>> {
    const unburied = new Set<number>()
    for (let folder = folderOf(below); folder >= 0; folder--) {
      const listed = (await this.#listFolder(folder)).filter(({ generation }) => generation < below)
      const left = listed.filter(({ size }) => size !== TOMBSTONE_BYTES)
      for (const { generation } of left) unburied.add(generation)
      if (listed.length >= FOLDER_SIZE - 1 && left.length === 0) break
    }
    return unburied
  }

  async #listFolder(folder: number): Promise<{ generation: number; size: number }[]> {
    const names = await this.#listNames(folderKey(this.#place.root, folder))
    return names.flatMap(({ name, size }) => (name.is === 'commit' ? { generation: name.generation, size } : []))
  }

  /** What can't be parsed is left alone. */
  async #listNames(prefix: string): Promise<{ name: VersionedName; size: number }[]> {
    const { store, root } = this.#place
    const listed = await store.list(prefix, waiting(this.#signal))
    return listed.flatMap(({ key, size }) => {
      const name = parseName(key.slice(root.length + 1))
      return name === undefined ? [] : { name, size }
    })
  }
}
