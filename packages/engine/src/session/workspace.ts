import { renameSync } from 'node:fs'
import { join } from 'node:path'
import type { BlobStore, BlobStoreOptions } from '@nexus/blobs'
import { isNexusError, NexusError } from '@nexus/errors'
import { validatePluginId } from '@nexus/storage'
import {
  atomicWriteFile,
  type Clock,
  type Failpoint,
  type Logger,
  noFailpoint,
  parseTreePath,
  silentLogger,
  systemClock,
  treeParent,
  TreeRoot,
} from '@nexus/host'
import {
  BLOBS_DIR,
  CONTEXT_DIR,
  databasePath,
  FILES_DIR,
  META_PATH,
  METADATA_DIR,
  validateSessionId,
} from '@nexus/durability/names'
import { FileAnnouncer, type EmitTarget, type FileChange } from './files/file-events.ts'
import {
  newSessionMeta,
  readSessionMeta,
  resumedMeta,
  serializeMeta,
  type SessionMeta,
  type SessionProfile,
} from './meta.ts'
import { TreeFiles, type TreeFsync } from './files/tree-files.ts'

/** What connects a session's blobs to an object store. */
export type BlobHooks = Pick<BlobStoreOptions, 'onPut' | 'canEvict' | 'onMiss'>

/** How {@link openWorkspace} opens a session. */
export interface OpenWorkspaceOptions {
  id: string
  /** The session's directory, which exists: made by `createSessionTree` or hydrated. */
  dir: string
  /** Default: none until {@link SessionWorkspace.attachBus}; writes are silent until then. */
  bus?: EmitTarget
  /** Default `turn-boundary`. */
  fsync?: TreeFsync
  /** What the metadata shall say of this run. */
  profile?: SessionProfile
  blobHooks?: BlobHooks
  logger?: Logger
  clock?: Pick<Clock, 'now'>
  failpoint?: Failpoint
}

/** How a helper writes. */
export interface WriteOptions {
  /** Emit the file event through this instead of the bus, e.g. the event being handled, whose child it then becomes. */
  via?: EmitTarget
}

/**
 * Opens an existing session directory and marks it active: metadata are loaded (or made, when there are none) and
 * rewritten silently. Damaged metadata never keep a session from opening: they are set aside and begun anew, with a warning.
 *
 * @throws NexusError `INVALID_ARGUMENT` for a bad id, `NOT_FOUND` for a missing directory, `LOCAL_IO`, `PERMISSION`
 */
export async function openWorkspace(options: OpenWorkspaceOptions): Promise<SessionWorkspace> {
  const { logger = silentLogger, clock = systemClock, profile = {} } = options
  const id = validateSessionId(options.id)
  const root = new TreeRoot(options.dir)
  root.openDirectory(METADATA_DIR, { create: true }).close()
  const path = join(root.dir, META_PATH)
  let meta: SessionMeta | undefined
  try {
    meta = await readSessionMeta(root.dir)
  } catch (error) {
    if (!isNexusError(error, 'CORRUPT')) throw error
    const keptAt = `${path}.damaged-${clock.now()}`
    renameSync(path, keptAt)
    logger.warn({ err: error, session_id: id, kept_at: keptAt }, 'session metadata were damaged and are begun anew')
  }
  if (meta !== undefined && meta.id !== id) {
    logger.warn({ session_id: id, named: meta.id }, 'session metadata name another session; they are taken over')
  }
  const active = meta === undefined ? newSessionMeta(id, clock.now(), profile) : { ...resumedMeta(meta, profile), id }
  await atomicWriteFile(path, serializeMeta(active), { fsync: options.fsync !== 'none' })
  return new SessionWorkspace(root, active, options)
}

/**
 * The files of one session, for plugins and the engine. Paths are session-relative with `/`; one that leaves the session
 * (`..`, absolute, backslash, NUL, through a link) is a {@link PathEscapeError} and touches nothing.
 *
 * Every helper announces what it did; with handlers running the returned promise waits for them.
 *
 * @see docs/concepts/session.md
 */
export class SessionWorkspace {
  readonly id: string
  /** Absolute, every link resolved. */
  readonly dir: string
  readonly #files: TreeFiles
  readonly #announcer: FileAnnouncer
  readonly #fsync: TreeFsync
  readonly #logger: Logger
  readonly #failpoint: Failpoint
  #blobHooks: BlobHooks
  #blobs: Promise<BlobStore> | undefined
  #meta: SessionMeta
  #closed = false

  /** Use {@link openWorkspace}. */
  constructor(root: TreeRoot, meta: SessionMeta, options: OpenWorkspaceOptions) {
    this.id = meta.id
    this.dir = root.dir
    this.#meta = meta
    this.#fsync = options.fsync ?? 'turn-boundary'
    this.#logger = options.logger ?? silentLogger
    this.#failpoint = options.failpoint ?? noFailpoint
    this.#files = new TreeFiles(root, this.#fsync, this.#failpoint, this.#logger)
    this.#announcer = new FileAnnouncer(meta.id, root, options.bus, this.#logger)
    this.#blobHooks = options.blobHooks ?? {}
  }

  get contextDir(): string {
    return join(this.dir, CONTEXT_DIR)
  }

  get filesDir(): string {
    return join(this.dir, FILES_DIR)
  }

  get blobsDir(): string {
    return join(this.dir, BLOBS_DIR)
  }

  get metadataDir(): string {
    return join(this.dir, METADATA_DIR)
  }

  /** From now on writes are announced. */
  attachBus(bus: EmitTarget): void {
    this.#announcer.attach(bus)
  }

  /**
   * Replaces a file as a whole, directories above it made as needed: a reader or a snapshot sees the old bytes or the new
   * ones, and so does a resume after a crash. The mode of an existing file is kept; a new one has 0600 less the umask.
   *
   * @throws PathEscapeError
   * @throws NexusError `INVALID_ARGUMENT` for a file of the engine, for data that is neither text nor bytes, and when
   *   something else than a file is there; `LOCAL_IO`, `PERMISSION`
   */
  async writeFile(path: string, data: string | Uint8Array, options: WriteOptions = {}): Promise<void> {
    const announced = this.#announcing(options)
    await this.#files.write(this.#writable(path), bytesOf(data, path), announced.changed)
    await announced.handled()
  }

  /** The bytes of a file. `NOT_FOUND` when there is none. */
  async readFile(path: string): Promise<Buffer> {
    return await this.#files.read(parseTreePath(path))
  }

  /**
   * Appends a record, in one write call: concurrent appends never interleave within one. A record that didn't fit on the
   * disk is taken back. Errors are those of {@link writeFile}.
   */
  async appendFile(path: string, data: string | Uint8Array, options: WriteOptions = {}): Promise<void> {
    const announced = this.#announcing(options)
    await this.#files.append(this.#writable(path), bytesOf(data, path), announced.changed)
    await announced.handled()
  }

  /** Names of the files directly in a directory (`''` is the session), sorted; none when it doesn't exist. */
  async listFiles(dir: string): Promise<string[]> {
    return this.#files.list(parseTreePath(dir, 'directory'))
  }

  /** Whether a regular file is there. */
  async fileExists(path: string): Promise<boolean> {
    return this.#files.exists(parseTreePath(path))
  }

  /** Removes a file, or a link to one as such. `NOT_FOUND` when there is none. */
  async deleteFile(path: string, options: WriteOptions = {}): Promise<void> {
    const announced = this.#announcing(options)
    await this.#files.remove(this.#writable(path), announced.deleted)
    await announced.handled()
  }

  /**
   * Announces a whole-file write that went past the helpers. Says nothing where there is nothing to say (no bus, a
   * path elsewhere, a file that is never stored), so callers needn't check; it never rejects.
   *
   * @param existed whether the file was there *before* the write
   */
  announceWrite(absPath: string, existed: boolean): Promise<void> {
    return this.#announcer.wrote(absPath, existed)
  }

  /** Announces an append that went past the helpers; call it right after the append. Silent as {@link announceWrite}. */
  announceAppend(absPath: string, bytesAdded: number): Promise<void> {
    return this.#announcer.appended(absPath, bytesAdded)
  }

  /**
   * The directory of a plugin, made when it is first asked for.
   *
   * @param pluginId with an optional instance suffix, e.g. `nexus.agent.sub/researcher`
   * @throws NexusError `INVALID_ARGUMENT` when the id can't be a directory
   */
  pluginDir(pluginId: string): string {
    validatePluginId(pluginId)
    const path = treeParent(databasePath(pluginId))
    this.#files.makeDirectory(path)
    return join(this.dir, path)
  }

  /** Connects the blobs to an object store; before {@link blobStore} is first called. */
  useBlobHooks(hooks: BlobHooks): void {
    if (this.#blobs !== undefined) {
      throw new NexusError('PRECONDITION', 'the blob store is open already: connect it before its first use', {
        op: 'session.blobs',
      })
    }
    this.#blobHooks = hooks
  }

  /** The blobs of this session, opened on the first call. */
  async blobStore(): Promise<BlobStore> {
    this.#refuseClosed('session.blobs')
    this.#blobs ??= import('@nexus/blobs').then(({ BlobStore }) =>
      BlobStore.open(this.blobsDir, {
        ...this.#blobHooks,
        fsync: this.#fsync !== 'none',
        logger: this.#logger,
        failpoint: (name) => void this.#failpoint(name),
      }),
    )
    return await this.#blobs
  }

  /**
   * Nothing more is written: the run has ended or was dropped, its lock may be another's, and what came now would be lost.
   * Reading goes on.
   */
  close(): void {
    this.#closed = true
    void this.#blobs?.then((blobs) => blobs.close())
  }

  #writable(path: string): string {
    const file = parseTreePath(path)
    this.#refuseClosed('session.write', file)
    return file
  }

  #refuseClosed(op: string, key = this.id): void {
    if (!this.#closed) return
    throw new NexusError('CLOSED', `session ${this.id} has ended: open it again to write`, { op, key })
  }

  /** The metadata as last loaded or saved. */
  meta(): SessionMeta {
    return this.#meta
  }

  /** Writes `metadata/session.json`; {@link meta} returns the new ones at once. Announced as `updated`. */
  async saveMeta(meta: SessionMeta, options: WriteOptions = {}): Promise<void> {
    if (meta.id !== this.id) {
      throw new NexusError('INVALID_ARGUMENT', `these are the metadata of ${meta.id}, not of ${this.id}`, {
        op: 'session.saveMeta',
      })
    }
    this.#refuseClosed('session.saveMeta')
    this.#meta = meta
    const announced = this.#announcing(options)
    await this.#files.writeOwn(META_PATH, Buffer.from(serializeMeta(meta)), (change) =>
      announced.changed({ ...change, created: false }),
    )
    await announced.handled()
  }

  /** Makes everything written so far durable where the policy left that to the turn boundary. */
  sync(): Promise<void> {
    return this.#files.sync()
  }

  /** Resolves when every write that was called before has settled. */
  idle(): Promise<void> {
    return this.#files.idle()
  }

  /** Emits in the order of the writes, and waits for the handlers only when the path is free again: one may write to it. */
  #announcing(options: WriteOptions): {
    changed: (change: FileChange) => void
    deleted: (path: string) => void
    handled: () => Promise<void>
  } {
    let handled: Promise<void> = Promise.resolve()
    return {
      changed: (change) => {
        handled = this.#announcer.changed(change, options.via)
      },
      deleted: (path) => {
        handled = this.#announcer.deleted(path, options.via)
      },
      handled: () => handled,
    }
  }
}

/** The bytes to write. Anything else would be written as an empty file, or as what `String` makes of it. */
function bytesOf(data: unknown, path: string): Uint8Array {
  if (typeof data === 'string') return Buffer.from(data, 'utf8')
  if (data instanceof Uint8Array) return data
  // Of another realm, or wider than a byte: its memory is what `node:fs` would write, too.
  if (ArrayBuffer.isView(data)) return new Uint8Array(data.buffer, data.byteOffset, data.byteLength)
  throw new NexusError(
    'INVALID_ARGUMENT',
    `${JSON.stringify(path)} was given ${data === null ? 'null' : `a value of type ${typeof data}`} to write: give it a string or a Uint8Array`,
    { op: 'session.write', key: path },
  )
}
