import { mkdirSync, rmSync, truncateSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { NexusError } from '@nexus/errors'
import { openRegular, parseTreePath, sharedDigester, silentLogger, Slices, type Logger } from '@nexus/host'
import { JOURNAL_DIR, sessionKeys } from '@nexus/durability/names'
import { layoutInStore, restoreAttributes, StagedTree, type Committed, type Layout } from '@nexus/durability/tools'
import { forEachBounded, type ObjectStore } from '@nexus/objectstore'
import type { Scratch } from './scratch.ts'
import type { OpenedFile, SessionFiles } from './session-files.ts'
import { entriesOfCommit, type TreeEntry } from './tree-entry.ts'

const CONCURRENCY = 8

/**
 * The newest commit of a session in a store. Files are fetched when they are asked for, each checked against its digest; what
 * can't be had one by one (the store gives no single objects, or an interrupted commit overwrote it) is taken from a
 * restore of the whole commit into the scratch directory.
 */
export class StoredFiles implements SessionFiles {
  readonly source = 'store'
  readonly where: string
  readonly generation: number
  readonly #committed: Committed
  readonly #layout: Layout
  readonly #scratch: Scratch
  readonly #signal: AbortSignal
  readonly #fetchDir: string
  /** By path: where the file lies once it was fetched. */
  readonly #fetched = new Map<string, Promise<string>>()
  #restored: Promise<string> | undefined

  private constructor(id: string, layout: Layout, committed: Committed, scratch: Scratch, signal: AbortSignal) {
    this.where = sessionKeys(id).tree
    this.generation = committed.generation
    this.#committed = committed
    this.#layout = layout
    this.#scratch = scratch
    this.#signal = signal
    this.#fetchDir = scratch.newDir()
  }

  /** Undefined when the store says that no commit was ever completed. Rejects with `CORRUPT`, `UNSUPPORTED`, the store's error. */
  static async open(
    store: ObjectStore,
    id: string,
    scratch: Scratch,
    { signal = new AbortController().signal, logger = silentLogger }: { signal?: AbortSignal; logger?: Logger } = {},
  ): Promise<StoredFiles | undefined> {
    const layout = await layoutInStore(store, id, scratch.newDir(), logger)
    const committed = await layout.committed(signal)
    return committed === undefined ? undefined : new StoredFiles(id, layout, committed, scratch, signal)
  }

  async entries(): Promise<TreeEntry[]> {
    return entriesOfCommit(this.#committed)
  }

  async openFile(path: string): Promise<OpenedFile> {
    const { fd, size } = openRegular(await this.#fetch(parseTreePath(path, 'file')))
    return { fd, sizeBytes: size }
  }

  /** Everything is wanted: one restore mends what can be mended, and fetches many objects at once. */
  async openSettled(path: string): Promise<OpenedFile> {
    this.#restored ??= this.#restore()
    return await this.openFile(path)
  }

  async check(path: string): Promise<string | undefined> {
    const entry = this.#committed.entries[path]
    if (entry === undefined) return undefined
    const localPath = join(this.#fetchDir, '.checked')
    try {
      if (!(await this.#layout.fetchBlob(path, localPath, this.#signal))) return 'the store does not have it'
      return (await this.#holds(localPath, entry)) ? undefined : 'the store holds something else than was committed'
    } finally {
      rmSync(localPath, { force: true })
    }
  }

  async journalDir(): Promise<string> {
    const paths = this.#committed.objects.filter((path) => /^journal\/[^/]+$/.test(path))
    const fetched: string[] = []
    await forEachBounded(
      paths,
      CONCURRENCY,
      async (path) => {
        fetched.push(await this.#fetch(path))
      },
      this.#signal,
    )
    // All lie in one directory: the restored tree once anything had to come from there.
    if (this.#restored !== undefined) return join(await this.#restored, JOURNAL_DIR)
    return fetched.length === 0 ? join(this.#fetchDir, JOURNAL_DIR) : dirname(fetched[0] as string)
  }

  async databaseCopy(path: string): Promise<string> {
    // What is committed is one file without sidecars. SQLite may write beside it: that is in the scratch directory.
    return await this.#fetch(parseTreePath(path, 'file'))
  }

  async close(): Promise<void> {
    await Promise.allSettled([...this.#fetched.values(), this.#restored])
  }

  #fetch(path: string): Promise<string> {
    const known = this.#fetched.get(path)
    if (known !== undefined) return known
    const fetching = this.#fetchNow(path)
    this.#fetched.set(path, fetching)
    return fetching
  }

  async #fetchNow(path: string): Promise<string> {
    const { generation, entries, objects } = this.#committed
    const entry = entries[path]
    if (entry === undefined && !objects.includes(path)) {
      throw new NexusError('NOT_FOUND', `generation ${generation} of ${this.where} has no file ${path}`, {
        op: 'inspect.open',
        key: path,
      })
    }
    if (this.#restored === undefined && entry !== undefined) {
      const localPath = join(this.#fetchDir, path)
      mkdirSync(dirname(localPath), { recursive: true, mode: 0o700 })
      if ((await this.#layout.fetchBlob(path, localPath, this.#signal)) && (await this.#holds(localPath, entry))) {
        return localPath
      }
    }
    this.#restored ??= this.#restore()
    return join(await this.#restored, path)
  }

  async #holds(localPath: string, { size, sha256 }: { size: number; sha256: string }): Promise<boolean> {
    const slices = new Slices({ signal: this.#signal })
    const digest = await sharedDigester(silentLogger).digest(localPath, { limit: size, sizeHint: size, slices })
    if (digest.bytes !== size || digest.sha256 !== sha256) return false
    // An interrupted commit appended to it.
    if (digest.size > size) truncateSync(localPath, size)
    return true
  }

  async #restore(): Promise<string> {
    return (await restoreCommit(this.#layout, this.#scratch, this.#signal, this.#committed)).dir
  }
}

/**
 * Restores the newest commit into a directory of the scratch, modes, times and links included.
 *
 * @param expected the commit that it has to be
 * @throws NexusError `PRECONDITION` when it is another by now, or none; what a restore rejects with
 */
export async function restoreCommit(
  layout: Layout,
  scratch: Scratch,
  signal: AbortSignal,
  expected: Committed,
): Promise<{ dir: string; content: Committed }> {
  const dir = scratch.newDir()
  const tree = new StagedTree(dir)
  const slices = new Slices({ signal })
  const restored = await layout.restore(tree, {
    scratchDir: scratch.newDir(),
    onMixed: 'auto',
    slices,
    concurrency: CONCURRENCY,
    signal,
  })
  if (restored?.committed.nonce !== expected.nonce || restored.committed.generation !== expected.generation) {
    const now = restored === undefined ? 'gone' : `at generation ${restored.committed.generation}`
    const message = `the session was committed again while it was read: it is ${now}. Open it anew`
    throw new NexusError('PRECONDITION', message, { op: 'inspect.restore', retryable: true })
  }
  await restoreAttributes(tree, restored.content, { slices, failpoint: () => undefined })
  return { dir, content: restored.content }
}
