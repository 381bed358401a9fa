import { createHash } from 'node:crypto'
import { closeSync, lstatSync, mkdirSync, openSync, readFileSync, renameSync, statfsSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { fromSystemError, isNexusError, NexusError, systemCode } from '@nexus/errors'
import {
  acquireSessionLock,
  adoptSessionLock,
  noFailpoint,
  Slices,
  syncDirectory,
  writeFully,
  writeLockFile,
  type Failpoint,
  type SessionLock,
} from '@nexus/host'
import { isSessionId, JOURNAL_HEADER_PATH, META_PATH, validateSessionId } from '@nexus/durability/names'
import {
  createStagingDir,
  hasChain,
  layoutInStore,
  manifestSteps,
  noteSetAside,
  removeMachineRecord,
  removeSetAside,
  removeStagingDir,
  restoreAttributes,
  StagedTree,
  syncTree,
  type Manifest,
} from '@nexus/durability/tools'
import type { ObjectStore } from '@nexus/objectstore'
import {
  archiveItems,
  checkTrailer,
  MANIFEST_NAME,
  MOST_MANIFEST_BYTES,
  MOST_TRAILER_BYTES,
  refused,
  TRAILER_NAME,
} from './archive-format.ts'
import type { ArchiveSource } from './archive-source.ts'
import { checkContent, mostBytesOf } from './check-content.ts'
import { DirectorySource } from './directory-source.ts'
import type { CopyProgress } from './export-session.ts'
import { TarSource } from './tar-source.ts'

/** How {@link importSession} goes. */
export interface ImportOptions {
  /** The directory of the sessions; made when it is missing. */
  readonly sessionsRoot: string
  /** The id that it gets. Default: the one it had. */
  readonly id?: string
  /** Replace a session of that id that is there. Default false: it is refused. */
  readonly overwrite?: boolean
  /** Refuse an id that this store knows: a boot would take what is stored, and set aside what was imported. */
  readonly store?: ObjectStore
  readonly onProgress?: (progress: CopyProgress) => void
  readonly signal?: AbortSignal
  readonly failpoint?: Failpoint
}

/** What was imported. */
export interface ImportedSession {
  readonly id: string
  /** The id it was exported under. */
  readonly exportedId: string
  readonly dir: string
  readonly files: number
  readonly bytes: number
  /** There was a session of that id, and it is gone. */
  readonly replaced: boolean
}

/** Failpoints of an import, in the order it passes them. */
export const IMPORT_FAILPOINTS: readonly string[] = [
  'import:manifest-read',
  'import:staging-made',
  'import:files-written',
  'import:staged',
  'import:set-aside',
  'import:record-removed',
  'import:renamed',
  'import:old-removed',
]

const OP = 'import'

/**
 * Brings an exported session to this machine, whole or not at all: everything is checked in a staging directory, and the
 * session appears by one rename. Its journal and metadata get the new id; envelopes keep the one they were written under.
 *
 * A session that is replaced is set aside first, by a rename, and removed last. A kill in between leaves it whole under
 * `.stale-<id>-<time>`, where no sweep removes it.
 *
 * @param archive a `.tar.zst`, or a directory of the same content
 * @throws NexusError `CORRUPT` for an archive that isn't what an export writes, `PRECONDITION` when the id is taken here or
 *   in the store, `LOCKED` when a live process holds it, `INVALID_ARGUMENT` for what can't be an id, `LOCAL_IO` when the disk
 *   has no room for it, `UNSUPPORTED` for a later format
 * @see docs/guides/moving-sessions.md
 */
export async function importSession(archive: string, options: ImportOptions): Promise<ImportedSession> {
  if (options.id !== undefined) validateSessionId(options.id)
  const source = openSource(resolve(archive))
  try {
    return await new Import(source, options).run()
  } catch (error) {
    throw isNexusError(error) || systemCode(error) === undefined ? error : fromSystemError(error, OP, archive)
  } finally {
    await source.close()
  }
}

function openSource(path: string): ArchiveSource {
  const stats = lstatSync(path, { throwIfNoEntry: false })
  if (stats === undefined) throw new NexusError('NOT_FOUND', `there is no archive ${path}`, { op: OP, key: path })
  return stats.isDirectory() ? new DirectorySource(path) : new TarSource(path)
}

class Import {
  readonly #source: ArchiveSource
  readonly #options: ImportOptions
  readonly #root: string
  readonly #failpoint: Failpoint

  constructor(source: ArchiveSource, options: ImportOptions) {
    this.#source = source
    this.#options = options
    this.#root = resolve(options.sessionsRoot)
    this.#failpoint = options.failpoint ?? noFailpoint
  }

  async run(): Promise<ImportedSession> {
    const manifestBytes = await this.#source.takeText(MANIFEST_NAME, MOST_MANIFEST_BYTES)
    const manifest = await parse(manifestBytes, this.#options.signal)
    mkdirSync(this.#root, { recursive: true, mode: 0o700 })
    const { bytes } = await checkContent(manifest, this.#root, new Slices({ signal: this.#options.signal }))
    this.#source.expect(mostBytesOf(manifest, manifestBytes.length))
    const id = this.#options.id ?? manifest.session_id
    await this.#failpoint('import:manifest-read')
    await this.#refuseTaken(id)
    this.#refuseFull(bytes)
    const staging = createStagingDir(this.#root, 'hydrating', id)
    try {
      await writeLockFile(staging, { transport: OP })
      await this.#failpoint('import:staging-made')
      const tree = new StagedTree(staging)
      await this.#writeTree(tree, manifest, bytes)
      const manifestSha256 = createHash('sha256').update(manifestBytes).digest('hex')
      const files = manifest.objects.length
      checkTrailer(await this.#source.takeText(TRAILER_NAME, MOST_TRAILER_BYTES), { manifestSha256, files, bytes })
      await this.#source.finish()
      await this.#failpoint('import:files-written')
      if (id !== manifest.session_id) renameSession(staging, id)
      const slices = new Slices({ signal: this.#options.signal })
      await restoreAttributes(tree, manifest, { slices, failpoint: noFailpoint })
      await syncTree(staging, this.#options.signal ?? new AbortController().signal)
      this.#options.signal?.throwIfAborted()
      await this.#failpoint('import:staged')
      const replaced = await this.#place(staging, id)
      return { id, exportedId: manifest.session_id, dir: join(this.#root, id), files, bytes, replaced }
    } finally {
      // Gone already when the tree is in its place.
      await removeStagingDir(staging)
    }
  }

  async #writeTree(tree: StagedTree, { entries, objects, ...rest }: Manifest, totalBytes: number): Promise<void> {
    const done = { files: 0, bytes: 0 }
    for (const item of archiveItems({ entries, objects, ...rest })) {
      this.#options.signal?.throwIfAborted()
      const content = await this.#source.take(item)
      if (content === undefined) continue
      const sha256 = await writeFile(tree.place(item.path), content, item.sizeBytes, (bytes) => {
        done.bytes += bytes
      })
      if (sha256 !== entries[item.path]?.sha256) throw refused(`${item.path} does not have the digest in its manifest`)
      done.files += 1
      this.#options.onProgress?.({ ...done, totalFiles: objects.length, totalBytes })
    }
  }

  async #refuseTaken(id: string): Promise<void> {
    const { overwrite = false, store, signal } = this.#options
    if (!overwrite && exists(join(this.#root, id))) {
      const message = `there is a session ${id} in ${this.#root}: import under another id, or say that it may be overwritten`
      throw new NexusError('PRECONDITION', message, { op: OP, key: id })
    }
    if (store === undefined) return
    if (await hasChain(store, id, signal)) {
      const message =
        `the store holds session ${id} in the versioned layout, and this one would go into the mirror layout: ` +
        'import under another id'
      throw new NexusError('PRECONDITION', message, { op: OP, key: id })
    }
    const head = await (await layoutInStore(store, id, join(this.#root, '.machine'))).head(signal)
    if (head === undefined) return
    const message =
      `the store holds generation ${head.generation} of session ${id}, and a boot would go on with that: ` +
      'import under another id, or remove it from the store first'
    throw new NexusError('PRECONDITION', message, { op: OP, key: id })
  }

  #refuseFull(bytes: number): void {
    const { bavail, bsize } = statfsSync(this.#root)
    if (bavail * bsize > bytes) return
    const message = `${this.#root} has ${bavail * bsize} bytes free, and the session has ${bytes}: make room first`
    throw new NexusError('LOCAL_IO', message, { op: OP, key: this.#root })
  }

  /** @returns whether a session of that id was replaced */
  async #place(staging: string, id: string): Promise<boolean> {
    const dir = join(this.#root, id)
    const old = exists(dir) ? await this.#lockOld(dir, id) : undefined
    let keptAt: string | undefined
    try {
      if (old !== undefined) keptAt = await this.#setAside(dir, id, old)
      await this.#failpoint('import:set-aside')
      // The tree that comes is of no commit that this machine has made.
      await removeMachineRecord(this.#root, id)
      await this.#failpoint('import:record-removed')
      renameSync(staging, dir)
      await syncDirectory(this.#root)
      const lock = await adoptSessionLock(dir)
      await this.#failpoint('import:renamed')
      if (keptAt !== undefined) await removeSetAside(keptAt)
      await this.#failpoint('import:old-removed')
      lock.release()
      return keptAt !== undefined
    } catch (error) {
      if (keptAt !== undefined && exists(keptAt) && !exists(dir)) renameSync(keptAt, dir)
      throw error
    } finally {
      old?.release()
    }
  }

  async #lockOld(dir: string, id: string): Promise<SessionLock> {
    // It may have appeared since the first look.
    await this.#refuseTaken(id)
    return await acquireSessionLock(dir, { transport: OP })
  }

  async #setAside(dir: string, id: string, lock: SessionLock): Promise<string> {
    const time = `${new Date().toISOString().replaceAll(/[-:]/g, '').slice(0, 15)}Z`
    const base = join(this.#root, `.stale-${id}-${time}`)
    let keptAt = base
    for (let n = 1; exists(keptAt); n++) keptAt = `${base}-${n}`
    // Forked: no sweep removes it when we are killed.
    await noteSetAside(keptAt, { setAsideAtMs: Date.now(), forked: true })
    renameSync(dir, keptAt)
    lock.relocate(keptAt)
    return keptAt
  }
}

async function parse(bytes: Buffer, signal: AbortSignal | undefined): Promise<Manifest> {
  const id = /"session_id":"([^"\\]{1,200})"/.exec(bytes.toString('utf8', 0, 4096))?.[1]
  if (!isSessionId(id)) throw refused(`${MANIFEST_NAME} names no session`)
  const slices = new Slices({ signal })
  try {
    for (const steps = manifestSteps(bytes, id); ;) {
      const step = steps.next()
      if (step.done === true) return step.value
      await slices.rest()
    }
  } catch (error) {
    if (!isNexusError(error, 'CORRUPT')) throw error
    throw refused(`${MANIFEST_NAME} is damaged (${error.message})`, error)
  }
}

/** @returns the digest of what was written */
async function writeFile(
  path: string,
  content: AsyncIterable<Uint8Array>,
  sizeBytes: number,
  onBytes: (bytes: number) => void,
): Promise<string> {
  const hash = createHash('sha256')
  const fd = openSync(path, 'wx', 0o600)
  try {
    let written = 0
    for await (const chunk of content) {
      written += chunk.length
      if (written > sizeBytes) throw refused(`${path} is longer than its manifest says`)
      hash.update(chunk)
      await writeFully(fd, chunk)
      onBytes(chunk.length)
    }
  } finally {
    closeSync(fd)
  }
  return hash.digest('hex')
}

/** Gives a tree another id, where it says its own. */
function renameSession(dir: string, id: string): void {
  for (const [path, field] of [
    [META_PATH, 'id'],
    [JOURNAL_HEADER_PATH, 'session_id'],
  ] as const) {
    const at = join(dir, path)
    if (!exists(at)) continue
    let value: unknown
    try {
      value = JSON.parse(readFileSync(at, 'utf8'))
    } catch (error) {
      throw refused(`${path} is not JSON, so that the session can't get another id`, error)
    }
    writeFileSync(at, `${JSON.stringify({ ...(value as object), [field]: id }, undefined, 2)}\n`)
  }
}

function exists(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false }) !== undefined
}
