import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { noFailpoint, silentLogger, Slices, systemClock, TreeCursor } from '@nexus/host'
import { tempDir } from '@nexus/host/testing'
import { type Bucket, readSession, type ReadSession } from '@nexus/independent-reader'
import { ObjectStore } from '@nexus/objectstore'
import { createMemoryBackend, type MemoryBackend } from '@nexus/objectstore-memory-test'
import { SnapshotMemory } from '../../src/capture/memory.ts'
import type { StagedFile, StagedParts } from '../../src/capture/stage.ts'
import { restoreAttributes, type Restored, StagedTree } from '../../src/layout/staged-tree.ts'
import type { CapturedTree, SnapshotTrigger } from '../../src/layout/layout.ts'
import type { UploadedPack } from '../../src/versioned/core/session-record.ts'
import { loadTree } from '../../src/versioned/store/read/load-tree.ts'
import {
  type CommitBase,
  type CommitContext,
  prepareBare,
  type PreparedCommit,
  prepareSnapshot,
} from '../../src/versioned/store/write/prepare-commit.ts'
import { restoreTree } from '../../src/versioned/store/read/restore-tree.ts'
import { SessionObjects } from '../../src/versioned/store/session-objects.ts'
import type { TreeState } from '../../src/versioned/store/tree-state.ts'

/** One session tree and its bucket, and commits made of the one in the other, without a layout around them. */
export class SessionFixture {
  readonly root: string
  readonly dir: string
  readonly backend: MemoryBackend
  readonly objects: SessionObjects
  readonly context: CommitContext
  state: TreeState | undefined
  generation: number = 0
  lastStartNs: bigint | undefined
  kept: UploadedPack[] = []
  staged: Map<string, StagedFile> = new Map()
  #sequence = 0

  constructor({
    backend = createMemoryBackend(),
    context = {},
  }: { backend?: MemoryBackend; context?: Partial<CommitContext> } = {}) {
    this.root = tempDir()
    this.dir = join(this.root, 's')
    mkdirSync(this.dir)
    this.backend = backend
    const store = new ObjectStore(backend, { name: 'memory-test' })
    const scratchDir = mkdtempSync(join(this.root, 'scratch-'))
    this.objects = new SessionObjects({ store, sessionId: 's', root: 'sessions/s.v', scratchDir })
    this.context = {
      objects: this.objects,
      clock: systemClock,
      logger: silentLogger,
      failpoint: noFailpoint,
      owner: { instance_id: 'i', machine_id: 'm' },
      epoch: 1,
      verifyContent: 'auto',
      onPack: (pack) => void this.kept.push(pack),
      ...context,
    }
  }

  write(path: string, content: string | Uint8Array): void {
    const full = join(this.dir, path)
    mkdirSync(dirname(full), { recursive: true, mode: 0o700 })
    writeFileSync(full, content, { mode: 0o600 })
  }

  /** A copy that stands for a file of the tree. */
  stage(path: string, content: Uint8Array): void {
    const localPath = join(this.root, `staged-${path.replaceAll('/', '-')}`)
    writeFileSync(localPath, content)
    const about = { mode: 0o600, mtimeNs: 1_700_000_000_000_000_000n }
    this.staged.set(path, { path, localPath, sizeBytes: content.length, ...about })
  }

  async prepare(trigger: SnapshotTrigger = 'turn'): Promise<PreparedCommit> {
    const cursor = new TreeCursor(this.dir)
    try {
      return await prepareSnapshot(this.context, this.base(), this.#captured(cursor, trigger))
    } finally {
      cursor.close()
    }
  }

  /** Makes the next commit and creates it. */
  async commit(trigger: SnapshotTrigger = 'turn'): Promise<PreparedCommit> {
    return await this.land(await this.prepare(trigger))
  }

  async claim(): Promise<PreparedCommit> {
    return await this.land(await prepareBare(this.context, this.base(), 'claim', new Slices()))
  }

  async land(prepared: PreparedCommit): Promise<PreparedCommit> {
    const created = await this.objects.create(this.objects.nameOf(prepared.generation), prepared.bytes)
    if (!created) throw new Error('the number is taken')
    this.state = prepared.accept()
    this.generation = prepared.generation
    this.lastStartNs = prepared.startNs
    this.kept = this.kept.filter((pack) => !prepared.containers.packs.has(nameOf(pack)))
    return prepared
  }

  /** Forgets everything, and reads the newest commit as another process would. */
  async reload(): Promise<TreeState> {
    const whole = await this.objects.readWhole(this.generation)
    if (whole === undefined) throw new Error('there is no commit')
    const { state } = await loadTree(this.objects, whole, { slices: new Slices(), concurrency: 4 })
    this.state = state
    this.lastStartNs = undefined
    return state
  }

  /** Restores the newest commit into a fresh directory, as another machine would. Gives the directory. */
  async restore(options: { reuseDir?: string } = {}): Promise<{ dir: string; restored: Restored }> {
    const whole = await this.objects.readWhole(this.generation)
    if (whole === undefined) throw new Error('there is no commit')
    const slices = new Slices()
    const loaded = await loadTree(this.objects, whole, { slices, concurrency: 4 })
    const tree = new StagedTree(mkdtempSync(join(this.root, 'restored-')))
    const restored = await restoreTree(tree, loaded, 's', { slices, concurrency: 4, logger: silentLogger, ...options })
    await restoreAttributes(tree, restored.content, { slices, failpoint: noFailpoint })
    return { dir: tree.dir, restored }
  }

  /** The newest commit, as the reader has it that was written from the format page. */
  async read(): Promise<ReadSession> {
    const session = await readSession(bucketOf(this.backend), 's')
    if (session === undefined) throw new Error('there is no session')
    return session
  }

  /** What the reader found, as text by path. */
  async contents(): Promise<Record<string, string>> {
    const { files } = await this.read()
    return Object.fromEntries([...files].map(([path, { content }]) => [path, content.toString('latin1')]))
  }

  onDisk(path: string): string {
    return readFileSync(join(this.dir, path), 'latin1')
  }

  base(): CommitBase {
    const { state, generation, kept, lastStartNs } = this
    return { parent: state, link: state?.commit, generation: generation + 1, kept, lastStartNs }
  }

  #captured(cursor: TreeCursor, trigger: SnapshotTrigger): CapturedTree {
    const parts: StagedParts = {
      files: this.staged,
      journal: undefined,
      lostDatabases: [],
      lastSeq: 0,
      dbBytes: 0,
      dbDurationMs: 0,
    }
    return {
      generation: this.generation + 1,
      nonce: String(this.#sequence),
      instanceId: 'i',
      sequence: ++this.#sequence,
      trigger,
      cursor,
      sessionDir: this.dir,
      stagingDir: mkdtempSync(join(this.root, 'staging-')),
      parts: Promise.resolve(parts),
      databases: undefined,
      committed: undefined,
      memory: new SnapshotMemory(),
      slices: new Slices(),
      concurrency: 4,
    }
  }
}

function nameOf({ name }: UploadedPack): string {
  return `${String(name.number).padStart(20, '0')}-${name.attempt}-${name.n}`
}

/** A bucket as the independent reader wants it. */
export function bucketOf(backend: MemoryBackend): Bucket {
  return {
    get: async (key) => backend.objects.get(key)?.bytes,
    list: async (prefix) => [...backend.objects.keys()].filter((key) => key.startsWith(`${prefix}/`)),
  }
}
