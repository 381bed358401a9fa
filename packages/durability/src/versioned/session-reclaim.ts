import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Clock, engineTempName, type Logger, Slices } from '@nexus/host'
import type { CommitId, Containers, Found } from './core/commit-facts.ts'
import { type KeepPolicy, reclaim, type ReclaimStore } from './core/reclaim.ts'
import { commitKey, folderKey, folderOf, packKey, type PackName, packsKey, parseName } from './core/versioned-keys.ts'
import { encodeTombstone, TOMBSTONE_BYTES } from './format/tombstone.ts'
import { SessionCommits } from './session-commits.ts'
import { containersOf } from './store/containers.ts'
import { loadTree } from './store/read/load-tree.ts'
import { type SessionObjects, waiting } from './store/session-objects.ts'

const DAY_MS = 86_400_000
const KEEP: KeepPolicy = { generations: 64, ageMs: 7 * DAY_MS, atMost: 1000 }
const EVERY = 32
const MAX_WRITES = 100
const CONCURRENCY = 16

/** Takes old commits of one session away, now and then, behind the commits of its owner. */
export class SessionReclaim {
  readonly #store: SessionReclaimStore
  readonly #clock: Clock
  readonly #logger: Logger
  readonly #life = new AbortController()
  #running: Promise<void> | undefined
  #from: number | undefined

  constructor(objects: SessionObjects, { clock, logger }: { clock: Clock; logger: Logger }) {
    this.#store = new SessionReclaimStore(objects, clock, this.#life.signal)
    this.#clock = clock
    this.#logger = logger
  }

  /** A commit landed: at every 32nd, reclaim begins. Never rejects, and is not waited for. */
  committed(head: CommitId): void {
    if (head.generation % EVERY !== 0 || this.#running !== undefined || this.#life.signal.aborted) return
    this.#running = this.#run(head).finally(() => (this.#running = undefined))
  }

  /** Waits so long for what is under way, and ends it. */
  async end(limitMs: number): Promise<void> {
    if (this.#running === undefined) return this.#life.abort()
    let timer: unknown
    const late = new Promise<void>((resolve) => {
      timer = this.#clock.setTimeout(resolve, limitMs)
    })
    await Promise.race([this.#running, late])
    this.#clock.clearTimeout(timer as never)
    this.#life.abort()
    await this.#running
  }

  async #run(head: CommitId): Promise<void> {
    const from = this.#from === undefined ? {} : { from: this.#from }
    try {
      const options = { policy: KEEP, nowMs: this.#clock.now(), maxWrites: MAX_WRITES, ...from }
      this.#from = (await reclaim(this.#store, head, options)) ?? this.#from
    } catch (error) {
      if (this.#life.signal.aborted) return
      this.#logger.warn({ err: error }, 'old commits could not be taken away; a later run will')
    }
  }
}

class SessionReclaimStore implements ReclaimStore {
  readonly #objects: SessionObjects
  readonly #commits: SessionCommits
  readonly #clock: Clock
  readonly #signal: AbortSignal

  constructor(objects: SessionObjects, clock: Clock, signal: AbortSignal) {
    this.#objects = objects
    this.#commits = new SessionCommits(objects)
    this.#commits.signal = signal
    this.#clock = clock
    this.#signal = signal
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
    const { packs, pack_pages: pages } = commit.header
    if (pages.length === 0) return containersOf(packs, generation)
    const options = { slices: new Slices({ signal: this.#signal }), concurrency: CONCURRENCY, signal: this.#signal }
    const { state } = await loadTree(this.#objects, commit, options)
    return containersOf(state.packs.values(), generation)
  }

  /** From the top down, until a folder has none left: a run that was cut takes the lowest first and leaves none below. */
  async unburied(below: number): Promise<readonly number[]> {
    const { store, root } = this.#objects.place
    const found: number[] = []
    for (let folder = folderOf(below); folder >= 0; folder--) {
      const before = found.length
      for (const { key, size } of await store.list(folderKey(root, folder), waiting(this.#signal))) {
        const name = parseName(key.slice(root.length + 1))
        if (name?.is === 'commit' && name.generation < below && size !== TOMBSTONE_BYTES) found.push(name.generation)
      }
      if (found.length === before && folder < folderOf(below)) break
    }
    return found.toSorted((a, b) => a - b)
  }

  async packs(): Promise<readonly PackName[]> {
    const { store, root } = this.#objects.place
    const listed = await store.list(packsKey(root), waiting(this.#signal))
    return listed.flatMap(({ key }) => {
      const name = parseName(key.slice(root.length + 1))
      return name?.is === 'pack' ? [name.pack] : []
    })
  }

  async bury(generation: number): Promise<void> {
    const { store, root, sessionId, scratchDir } = this.#objects.place
    const path = join(scratchDir, engineTempName())
    try {
      writeFileSync(path, encodeTombstone({ sessionId, generation, atMs: this.#clock.now() }), { mode: 0o600 })
      await store.put(commitKey(root, generation), path, waiting(this.#signal))
    } finally {
      rmSync(path, { force: true })
    }
  }

  async deletePack(pack: PackName): Promise<void> {
    const { store, root } = this.#objects.place
    await store.delete(packKey(root, pack), waiting(this.#signal))
  }
}
