import { createHash } from 'node:crypto'
import { closeSync } from 'node:fs'
import { isNexusError, NexusError } from '@nexus/errors'
import { hashSteps, Slices } from '@nexus/host'
import { isLocalPath, neverCrosses } from '@nexus/durability/names'
import { MANIFEST_SCHEMA_VERSION, manifestPieces, pathRecord, type Manifest } from '@nexus/durability/tools'
import { JournalReader } from '@nexus/journal'
import type { SessionFiles } from '../read/session-files.ts'
import type { TreeEntry } from '../read/tree-entry.ts'

/** What this machine notes of its own attempts inside a tree; a copy of the tree has made none. */
const RECORD_FILE = 'session.record.jsonl'

/** Whether a path means something on its own machine alone. */
export function staysHere(path: string, kind: TreeEntry['kind']): boolean {
  if (path === RECORD_FILE) return true
  return kind === 'file' ? neverCrosses(path) : isLocalPath(path)
}

/** What an export is going to write. */
export interface ExportPlan {
  readonly manifest: Manifest
  readonly manifestBytes: Buffer
  readonly manifestSha256: string
  /** Bytes of all files. */
  readonly totalBytes: number
}

/**
 * Looks at everything that an archive is to hold, with the digest of each file.
 *
 * @param atMs the time that the archive says it was made at
 */
export async function planExport(
  id: string,
  files: SessionFiles,
  atMs: number,
  signal: AbortSignal | undefined,
): Promise<ExportPlan> {
  const slices = new Slices({ signal })
  const manifest: Manifest = {
    _schema_version: MANIFEST_SCHEMA_VERSION,
    session_id: id,
    generation: files.generation ?? 0,
    nonce: '',
    instance_id: '',
    completed_at: new Date(atMs).toISOString(),
    key_prefix: '',
    objects: [],
    entries: pathRecord(),
    dirs: pathRecord(),
    links: pathRecord(),
    journal: { last_seq: await lastSeq(files) },
    unstored: [],
  }
  let totalBytes = 0
  for (const entry of await files.entries()) {
    const { path, kind, mode, target = '' } = entry
    if (staysHere(path, kind)) continue
    if (kind === 'directory') manifest.dirs[path] = { mode }
    else if (kind === 'link') manifest.links[path] = { target }
    else {
      const { sizeBytes, sha256 } = await digestOf(files, entry, slices)
      manifest.objects.push(path)
      manifest.entries[path] = { size: sizeBytes, mode, mtime_ns: String(entry.mtimeNs ?? 0n), sha256 }
      totalBytes += sizeBytes
    }
  }
  const manifestBytes = Buffer.from([...manifestPieces(manifest)].join(''))
  const manifestSha256 = createHash('sha256').update(manifestBytes).digest('hex')
  return { manifest, manifestBytes, manifestSha256, totalBytes }
}

async function digestOf(
  files: SessionFiles,
  { path, sizeBytes, sha256 }: TreeEntry,
  slices: Slices,
): Promise<{ sizeBytes: number; sha256: string }> {
  if (sha256 !== undefined) return { sizeBytes, sha256 }
  const opened = await files.openSettled(path)
  try {
    for (const steps = hashSteps(opened.fd, { limit: opened.sizeBytes }); ;) {
      const step = steps.next()
      if (step.done === true) return { sizeBytes: step.value.bytes, sha256: step.value.sha256 }
      await slices.rest()
    }
  } finally {
    closeSync(opened.fd)
  }
}

async function lastSeq(files: SessionFiles): Promise<number> {
  try {
    return await (await JournalReader.open(await files.journalDir())).lastSeq()
  } catch (error) {
    if (isNexusError(error, 'NOT_FOUND')) return 0
    throw error
  }
}

/** What an export ends with when the tree did not hold still. */
export function changedMeanwhile(id: string, path: string): NexusError {
  const message = `session ${id} was changed while it was exported (${path}): export it when nothing writes to it`
  return new NexusError('PRECONDITION', message, { op: 'export', key: path, retryable: true })
}
