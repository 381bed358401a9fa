import { createHash } from 'node:crypto'
import {
  chmodSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { ObjectStore, type Backend } from '@nexus/objectstore'
import { createMemoryBackend, type MemoryBackend } from '@nexus/objectstore-memory-test'
import { openStorageManager, type StorageManager } from '@nexus/storage'
import { hydrateSession, type HydrateOptions, type HydrateResult } from '../src/boot/hydrate.ts'
import type { Committed } from '../src/tree/committed.ts'
import { takeSnapshot, type SnapshotOptions, type SnapshotResult } from '../src/commit/snapshot.ts'
import { noFailpoint, systemClock, type Logger } from '@nexus/host'
import { layoutOf } from './layout-of.ts'

export const SESSION = 'sess-1'
export const TREE_KEY: string = `sessions/${SESSION}`

/** A host: a data root of its own. */
export interface Host {
  root: string
  dir: string
}

/** One log line that a test looks at. */
export interface Line {
  level: string
  fields: Record<string, unknown>
  message: string
}

/** How a {@link Lab} takes a snapshot: to its own store unless another one is named. */
type LabSnapshot = Partial<SnapshotOptions> & { store?: ObjectStore }
type LabHydration = Partial<Omit<HydrateOptions, 'layout'>> & { store?: ObjectStore }

/** A bucket, hosts that share it, and what one of them stored last. */
export class Lab {
  readonly backend: MemoryBackend
  readonly store: ObjectStore
  readonly lines: Line[] = []
  readonly logger: Logger
  committed: Committed | undefined
  generation = 0
  readonly #base = mkdtempSync(join(tmpdir(), 'nexus-durability-'))
  readonly #storages = new Map<string, StorageManager>()
  #hosts = 0

  constructor(backend: MemoryBackend = createMemoryBackend()) {
    this.backend = backend
    this.store = storeOf(backend)
    const log =
      (level: string) =>
      (fields: Record<string, unknown>, message: string): void => {
        this.lines.push({ level, fields, message })
      }
    this.logger = {
      trace: log('trace'),
      debug: log('debug'),
      info: log('info'),
      warn: log('warn'),
      error: log('error'),
    }
  }

  /** An empty host with an empty session directory, unless it is to be hydrated. */
  host({ empty = false }: { empty?: boolean } = {}): Host {
    const root = join(this.#base, `host-${++this.#hosts}`)
    const dir = join(root, SESSION)
    mkdirSync(empty ? root : dir, { recursive: true, mode: 0o700 })
    return { root, dir }
  }

  /** A storage manager of the host's session, ended with the lab. */
  storage(host: Host): StorageManager {
    const known = this.#storages.get(host.dir)
    if (known !== undefined) return known
    const storage = openStorageManager({ sessionDir: host.dir, storageRoot: join(host.root, '.storage') })
    this.#storages.set(host.dir, storage)
    return storage
  }

  /** Takes a snapshot and remembers it as the committed one. */
  async snapshot(host: Host, { store = this.store, ...options }: LabSnapshot = {}): Promise<SnapshotResult> {
    const { clock = systemClock, failpoint = noFailpoint, logger = this.logger } = options
    const result = await takeSnapshot({
      layout: layoutOf(store, SESSION, { clock, failpoint, logger }),
      sessionId: SESSION,
      sessionDir: host.dir,
      sessionsRoot: host.root,
      generation: ++this.generation,
      nonce: `nonce-${this.generation}`,
      instanceId: 'instance-1',
      sequence: this.generation,
      trigger: 'turn',
      beforeCommit: async () => undefined,
      logger: this.logger,
      storage: this.storage(host),
      ...(this.committed === undefined ? {} : { committed: this.committed }),
      ...options,
    })
    this.committed = result.committed
    return result
  }

  /** Hydrates on a host that has no tree. */
  async hydrate(host: Host, { store = this.store, ...options }: LabHydration = {}): Promise<HydrateResult> {
    const { failpoint = noFailpoint, logger = this.logger } = options
    return hydrateSession({
      layout: layoutOf(store, SESSION, { failpoint, logger }),
      sessionId: SESSION,
      sessionsRoot: host.root,
      prepareStaging: async (dir) => writeFileSync(join(dir, 'session.lock'), 'ours'),
      onMixed: 'warn',
      logger: this.logger,
      ...options,
    })
  }

  /** Content of one object of the session, as text. */
  object(path: string): string | undefined {
    return this.backend.objects.get(`${TREE_KEY}/${path}`)?.bytes.toString()
  }

  /** Puts an object behind everybody's back; `undefined` removes it. */
  plant(key: string, content: string | Buffer | undefined): void {
    if (content === undefined) this.backend.objects.delete(key)
    else this.backend.objects.set(key, { bytes: Buffer.from(content), modTime: new Date() })
  }

  warnings(): string[] {
    return this.lines.filter(({ level }) => level === 'warn').map(({ message }) => message)
  }

  async remove(): Promise<void> {
    for (const storage of this.#storages.values()) await storage.dispose()
    rmSync(this.#base, { recursive: true, force: true })
  }
}

export function storeOf(backend: Backend): ObjectStore {
  return new ObjectStore(backend, { name: 'memory' })
}

/** Writes a file of a tree, its directories made. */
export function write(host: Host, path: string, content: string | Buffer, mode?: number): void {
  const absolute = join(host.dir, path)
  mkdirSync(dirname(absolute), { recursive: true, mode: 0o700 })
  writeFileSync(absolute, content)
  if (mode !== undefined) chmodSync(absolute, mode)
}

export function link(host: Host, path: string, target: string): void {
  const absolute = join(host.dir, path)
  mkdirSync(dirname(absolute), { recursive: true, mode: 0o700 })
  symlinkSync(target, absolute)
}

/** Makes a file look as if it had been left alone for a while. */
export function age(host: Host, path: string, seconds = 1_000_000_000): void {
  utimesSync(join(host.dir, path), seconds, seconds)
}

export function read(host: Host, path: string): string {
  return readFileSync(join(host.dir, path), 'utf8')
}

/** Every path of a tree with kind, mode, time to the microsecond and digest or text; the lock left out. */
export function describeTree(dir: string): Record<string, string> {
  const out: Record<string, string> = {}
  const visit = (rel: string): void => {
    for (const name of readdirSync(join(dir, rel)).toSorted()) {
      const path = rel === '' ? name : `${rel}/${name}`
      if (path === 'session.lock') continue
      const absolute = join(dir, path)
      const stats = lstatSync(absolute, { bigint: true })
      const mode = (stats.mode & 0o777n).toString(8)
      if (stats.isSymbolicLink()) out[path] = `link ${readlinkSync(absolute)}`
      else if (stats.isDirectory()) {
        out[path] = `dir ${mode}`
        visit(path)
      } else {
        const digest = createHash('sha256').update(readFileSync(absolute)).digest('hex').slice(0, 12)
        out[path] = `file ${mode} ${stats.mtimeNs / 1000n} ${digest}`
      }
    }
  }
  visit('')
  return out
}

/** Names below a root that no boot should find: staging directories, half trees. */
export function leftovers(root: string): string[] {
  return readdirSync(root).filter((name) => name.startsWith('.'))
}
