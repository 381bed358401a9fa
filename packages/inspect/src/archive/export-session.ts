import { createHash } from 'node:crypto'
import { closeSync, createReadStream, existsSync, lstatSync } from 'node:fs'
import { rename } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { fromSystemError, isNexusError, NexusError, systemCode } from '@nexus/errors'
import { noFailpoint, readLockState, syncDirectory, type Failpoint } from '@nexus/host'
import { removeStagingDir, type Manifest } from '@nexus/durability/tools'
import { filesOf, type InspectedSession } from '../read/inspected-session.ts'
import type { SessionFiles } from '../read/session-files.ts'
import type { TreeEntry } from '../read/tree-entry.ts'
import { archiveItems, MANIFEST_NAME, serializeTrailer, TRAILER_NAME, type ArchiveItem } from './archive-format.ts'
import type { ArchiveSink } from './archive-sink.ts'
import { DirectorySink } from './directory-sink.ts'
import { changedMeanwhile, planExport } from './plan-export.ts'
import { TarSink } from './tar-sink.ts'

/** How far a copy of a session is. */
export interface CopyProgress {
  readonly files: number
  readonly totalFiles: number
  readonly bytes: number
  readonly totalBytes: number
}

/** How {@link exportSession} writes. */
export interface ExportOptions {
  /** Write a directory with the same content instead of one file. Default false. */
  readonly directory?: boolean
  /** Called after each file and every few MiB. */
  readonly onProgress?: (progress: CopyProgress) => void
  readonly signal?: AbortSignal
  readonly failpoint?: Failpoint
}

/** What was exported. */
export interface ExportedSession {
  readonly path: string
  readonly files: number
  /** Of the files, not compressed. */
  readonly bytes: number
  readonly lastSeq: number
}

/** Failpoints of an export, in the order it passes them. */
export const EXPORT_FAILPOINTS: readonly string[] = ['export:planned', 'export:written', 'export:renamed']

/**
 * Writes a session as one `.tar.zst`, or as a directory: its files, directories and links with their modes and times, what
 * SQLite's WAL holds folded into the databases. It appears at `dest` by one rename, whole and durable. The session is not
 * changed; what belongs to its machine (locks, sidecars, temporary files, its record of attempts) is left out.
 *
 * @throws NexusError `PRECONDITION` when something is at `dest`, or the session was changed meanwhile; `LOCKED` for a tree on
 *   this disk that a live process holds; `CORRUPT` when a store has lost something; `PERMISSION`, `LOCAL_IO`
 * @see docs/guides/moving-sessions.md
 */
export async function exportSession(
  session: InspectedSession,
  dest: string,
  options: ExportOptions = {},
): Promise<ExportedSession> {
  const { directory = false, signal, failpoint = noFailpoint } = options
  const path = resolve(dest)
  refuseExisting(path)
  const files = filesOf(session)
  refuseRunning(session)
  const before = files.source === 'local' ? await files.entries() : []
  const plan = await planExport(session.id, files, Date.now(), signal)
  await failpoint('export:planned')
  const temp = join(dirname(path), `.${basename(path)}.part`)
  let sink: ArchiveSink | undefined
  try {
    await removeStagingDir(temp)
    sink = directory ? new DirectorySink(temp) : new TarSink(temp)
    await fill(sink, session.id, plan, files, options)
    await sink.finish()
    if (files.source === 'local') {
      refuseRunning(session)
      refuseChanged(session.id, before, await files.entries())
    }
    await failpoint('export:written')
    await rename(temp, path)
    await failpoint('export:renamed')
    await syncDirectory(dirname(path))
  } catch (error) {
    await sink?.destroy()
    await removeStagingDir(temp)
    throw isNexusError(error) || systemCode(error) === undefined ? error : fromSystemError(error, 'export', path)
  }
  return { path, files: plan.manifest.objects.length, bytes: plan.totalBytes, lastSeq: plan.manifest.journal.last_seq }
}

async function fill(
  sink: ArchiveSink,
  id: string,
  { manifest, manifestBytes, manifestSha256, totalBytes }: Awaited<ReturnType<typeof planExport>>,
  files: SessionFiles,
  { onProgress, signal }: ExportOptions,
): Promise<void> {
  const madeAt = { mode: 0o600, mtimeNs: BigInt(Date.parse(manifest.completed_at)) * 1_000_000n }
  const text = (name: string, bytes: Buffer): Promise<void> =>
    sink.add({ name, kind: 'file', sizeBytes: bytes.length, target: '' }, madeAt, inPieces(bytes))
  await text(MANIFEST_NAME, manifestBytes)
  const done = { files: 0, bytes: 0 }
  const tell = (): void => onProgress?.({ ...done, totalFiles: manifest.objects.length, totalBytes })
  for (const item of archiveItems(manifest)) {
    signal?.throwIfAborted()
    if (item.kind === 'file') {
      await addFile(sink, item, id, manifest, files, (bytes) => {
        done.bytes += bytes
        tell()
      })
      done.files += 1
      tell()
    } else {
      const mode = item.kind === 'directory' ? (manifest.dirs[item.path]?.mode ?? 0o700) : 0o777
      await sink.add(item, { mode, mtimeNs: madeAt.mtimeNs })
    }
  }
  await text(
    TRAILER_NAME,
    Buffer.from(serializeTrailer({ manifestSha256, files: manifest.objects.length, bytes: totalBytes })),
  )
}

async function addFile(
  sink: ArchiveSink,
  item: ArchiveItem & { path: string },
  id: string,
  { entries }: Manifest,
  files: SessionFiles,
  onBytes: (bytes: number) => void,
): Promise<void> {
  const entry = entries[item.path]
  if (entry === undefined) throw changedMeanwhile(id, item.path)
  const { fd, sizeBytes } = await files.openSettled(item.path)
  if (sizeBytes < entry.size) {
    closeSync(fd)
    throw changedMeanwhile(id, item.path)
  }
  const hash = createHash('sha256')
  async function* hashed(): AsyncGenerator<Uint8Array> {
    if (item.sizeBytes === 0) {
      closeSync(fd)
      return
    }
    for await (const chunk of createReadStream('', { fd, start: 0, end: item.sizeBytes - 1 })) {
      hash.update(chunk as Buffer)
      yield chunk as Buffer
      onBytes((chunk as Buffer).length)
    }
  }
  await sink.add(item, { mode: entry.mode, mtimeNs: BigInt(entry.mtime_ns) }, hashed())
  if (hash.digest('hex') !== entry.sha256) throw changedMeanwhile(id, item.path)
}

const PIECE_BYTES = 1024 * 1024

async function* inPieces(bytes: Buffer): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += PIECE_BYTES) yield bytes.subarray(at, at + PIECE_BYTES)
}

function refuseExisting(path: string): void {
  if (lstatSync(path, { throwIfNoEntry: false }) !== undefined) {
    throw new NexusError('PRECONDITION', `${path} exists: name another file, or remove it`, { op: 'export', key: path })
  }
  if (!existsSync(dirname(path))) {
    throw new NexusError('NOT_FOUND', `there is no directory ${dirname(path)}`, { op: 'export', key: path })
  }
}

function refuseRunning(session: InspectedSession): void {
  if (session.source !== 'local' || readLockState(session.where) !== 'live') return
  const message = `session ${session.id} is running: stop it, or export what its store holds`
  throw new NexusError('LOCKED', message, { op: 'export', key: session.where, retryable: true })
}

function refuseChanged(id: string, before: readonly TreeEntry[], after: readonly TreeEntry[]): void {
  const known = new Map(before.map((entry) => [entry.path, stateOf(entry)]))
  for (const entry of after) {
    if (known.get(entry.path) !== stateOf(entry)) throw changedMeanwhile(id, entry.path)
    known.delete(entry.path)
  }
  for (const path of known.keys()) throw changedMeanwhile(id, path)
}

function stateOf({ kind, sizeBytes, mode, mtimeNs, target }: TreeEntry): string {
  return [kind, sizeBytes, mode, mtimeNs, target].join(':')
}
