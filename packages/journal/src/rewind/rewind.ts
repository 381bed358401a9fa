import { fromSystemError, isNexusError, NexusError } from '@nexus/errors'
import { type Clock, fileTimestamp, systemClock, noFailpoint } from '@nexus/host'
import { archiveJournal } from './archive-journal.ts'
import { copyLines } from '../segment/copy-lines.ts'
import type { Failpoint } from '../files/failpoints.ts'
import { finishRewind } from './finish-rewind.ts'
import { ACTIVE_SEGMENT, ARCHIVE_DIR } from '../format/format.ts'
import { readHeader } from '../format/header.ts'
import { copyFile, nodeFs, syncFile, type JournalFs } from '../files/journal-fs.ts'
import { holdDirectory } from '../files/held-directory.ts'
import { claimJournal } from '../files/open-journals.ts'
import { activePath, listNames, listSealed, sealedFiles, sweptSeq, type SealedFile } from '../format/journal-files.ts'
import { highestSeqOf } from '../read/reader.ts'
import { isArchiveName, STAGED_ACTIVE, writeIntent } from '../format/rewind-intent.ts'
import { readLastSeqOfSegment } from '../segment/segment-seq.ts'
import { segmentSource } from '../segment/segment-source.ts'

/** Takes the lock that keeps every other process from the session; resolves to what gives it back. */
export type JournalLock = () => Promise<() => void | Promise<void>>

/** How {@link rewind} and {@link restore} keep others away; the rest is for tests. */
export interface RewindOptions {
  /** The session's lock. `private`: only the caller knows the directory, so there is nothing to lock. */
  lock: JournalLock | 'private'
  clock?: Clock
  failpoint?: Failpoint
  fs?: JournalFs
}

/** A journal that was set aside. */
export interface JournalArchive {
  /** The time it was set aside, as in its directory below `archive/`. */
  name: string
  path: string
  lastSeq: number
  sizeBytes: number
}

/** The journal after a rewind or a restore. */
export interface RewoundJournal {
  lastSeq: number
  /** Name of the archive that keeps what the journal was before. */
  archive: string
}

interface Context {
  dir: string
  fs: JournalFs
  clock: Clock
  failpoint: Failpoint
}

/**
 * Makes the journal in `dir` end at `toSeq`. What it was before is kept under `archive/<time>/`. A crash leaves the old
 * journal or the new one; the next open finishes what was begun.
 *
 * @param toSeq the last seq to keep; 0 empties the journal
 * @throws `INVALID_ARGUMENT` when the journal has no such seq or no lock is given, what the lock rejects with, `LOCKED`
 * while this process has the journal open, `PRECONDITION` when the seq was swept from this copy, `NOT_FOUND` when there is
 * no journal, `CORRUPT` when a segment that must be read is damaged, `LOCAL_IO`
 */
export function rewind(dir: string, toSeq: number, options: RewindOptions): Promise<RewoundJournal> {
  return change('journal.rewind', dir, options, async (context) => {
    const last = await highestSeqOf(dir, context.fs)
    if (!Number.isSafeInteger(toSeq) || toSeq < 0 || toSeq > last) {
      throw new NexusError('INVALID_ARGUMENT', `cannot rewind ${dir} to seq ${toSeq}: it holds seqs up to ${last}`, {
        op: 'journal.rewind',
        key: dir,
      })
    }
    const swept = sweptSeq(dir, context.fs)
    if (toSeq < swept) {
      const message = `cannot rewind ${dir} to seq ${toSeq}: up to seq ${swept} its segments were swept. Restore the session from its store first`
      throw new NexusError('PRECONDITION', message, { op: 'journal.rewind', key: dir })
    }
    const archive = await archiveNow(context)
    const keep = await keptWhole(context, toSeq)
    await stageLines(context, keep, toSeq)
    await decide(
      context,
      archive,
      keep.map(({ name }) => name),
    )
    return { lastSeq: await highestSeqOf(dir, context.fs), archive }
  })
}

/**
 * Brings an archived journal back. The present one is archived first, so nothing is lost.
 *
 * @throws `NOT_FOUND` when there is no archive of that name; `INVALID_ARGUMENT` without a lock, what the lock rejects with,
 * `LOCKED`, `LOCAL_IO`
 */
export function restore(dir: string, name: string, options: RewindOptions): Promise<RewoundJournal> {
  return change('journal.restore', dir, options, async (context) => {
    const { fs } = context
    if (!archiveNames(dir, fs).includes(name)) {
      throw new NexusError('NOT_FOUND', `${dir} has no archive ${JSON.stringify(name)}`, {
        op: 'journal.restore',
        key: dir,
      })
    }
    const source = `${dir}/${ARCHIVE_DIR}/${name}`
    const archive = await archiveNow(context)
    await copyFile(fs, `${source}/${ACTIVE_SEGMENT}`, `${dir}/${STAGED_ACTIVE}`)
    await decide(
      context,
      name,
      sealedFiles(source, listNames(fs, source)).map((file) => file.name),
    )
    return { lastSeq: await highestSeqOf(dir, fs), archive }
  })
}

/** The journals that were set aside, oldest first. Empty when there are none. Throws `LOCAL_IO`. */
export async function listArchives(dir: string, options: { fs?: JournalFs } = {}): Promise<JournalArchive[]> {
  const { fs = nodeFs } = options
  try {
    const archives: JournalArchive[] = []
    for (const name of archiveNames(dir, fs)) {
      const path = `${dir}/${ARCHIVE_DIR}/${name}`
      archives.push({ name, path, lastSeq: await highestSeqOf(path, fs), sizeBytes: sizeOf(path, fs) })
    }
    return archives
  } catch (error) {
    throw isNexusError(error) ? error : fromSystemError(error, 'journal.listArchives', dir)
  }
}

async function change(
  op: string,
  dir: string,
  { lock, clock = systemClock, failpoint = noFailpoint, fs: given }: RewindOptions,
  work: (context: Context) => Promise<RewoundJournal>,
): Promise<RewoundJournal> {
  if (lock !== 'private' && typeof lock !== 'function') {
    const message =
      "a journal is changed under its session's lock: give `lock`, or 'private' for a directory of your own"
    throw new NexusError('INVALID_ARGUMENT', message, { op, key: 'lock' })
  }
  const unlock = lock === 'private' ? undefined : await lock()
  let release: (() => void) | undefined
  let held: ReturnType<typeof holdDirectory> | undefined
  try {
    held = holdDirectory(dir, given)
    const { fs } = held
    if (!readHeader(dir, fs)) throw new NexusError('NOT_FOUND', `there is no journal in ${dir}`, { op, key: dir })
    release = claimJournal(given ?? nodeFs, dir, op)
    await finishRewind(dir, fs, failpoint)
    return await work({ dir, fs, clock, failpoint })
  } catch (error) {
    throw isNexusError(error) ? error : fromSystemError(error, op, dir)
  } finally {
    release?.()
    held?.close()
    await unlock?.()
  }
}

/** The decision, and what follows from it. */
async function decide({ dir, fs, failpoint }: Context, archive: string, sealed: string[]): Promise<void> {
  failpoint('rewind:staged')
  writeIntent(dir, { schema_version: 1, archive, sealed }, fs)
  failpoint('rewind:decided')
  await finishRewind(dir, fs, failpoint)
}

async function archiveNow({ dir, fs, clock, failpoint }: Context): Promise<string> {
  const taken = new Set(archiveNames(dir, fs))
  const time = fileTimestamp(clock.now())
  let name = time
  for (let n = 1; taken.has(name); n++) name = `${time}-${n}`
  await archiveJournal(dir, name, fs, failpoint)
  failpoint('rewind:archived')
  return name
}

/** Sealed segments from the first on that hold nothing above `toSeq`. */
async function keptWhole({ dir, fs }: Context, toSeq: number): Promise<SealedFile[]> {
  const kept: SealedFile[] = []
  for (const segment of listSealed(dir, fs)) {
    if ((await readLastSeqOfSegment(segment.path, fs)) > toSeq) break
    kept.push(segment)
  }
  return kept
}

/** Writes what is left of the other segments, up to `toSeq`, as the coming active segment. */
async function stageLines({ dir, fs }: Context, keep: readonly SealedFile[], toSeq: number): Promise<void> {
  const last = keep.at(-1)
  let above = last ? await readLastSeqOfSegment(last.path, fs) : sweptSeq(dir, fs)
  const rest = listSealed(dir, fs).slice(keep.length)
  const dest = fs.openSync(`${dir}/${STAGED_ACTIVE}`, 'w', 0o600)
  try {
    for (const path of [...rest.map((file) => file.path), activePath(dir, fs)]) {
      const copied = await copySegment(fs, path, dest, above, toSeq)
      above = copied.lastSeq
      if (copied.reachedEnd) break
    }
    await syncFile(fs, dest)
  } finally {
    fs.closeSync(dest)
  }
}

async function copySegment(
  fs: JournalFs,
  path: string,
  dest: number,
  above: number,
  upTo: number,
): ReturnType<typeof copyLines> {
  const fd = fs.openSync(path, 'r')
  try {
    const source = segmentSource(fs, fd, path)
    return await copyLines(fs, source, dest, { above, upTo })
  } finally {
    fs.closeSync(fd)
  }
}

function archiveNames(dir: string, fs: JournalFs): string[] {
  return listNames(fs, `${dir}/${ARCHIVE_DIR}`).filter(isArchiveName).toSorted()
}

function sizeOf(dir: string, fs: JournalFs): number {
  let total = 0
  for (const name of listNames(fs, dir)) {
    const fd = fs.openSync(`${dir}/${name}`, 'r')
    try {
      total += fs.fstatSync(fd).size
    } finally {
      fs.closeSync(fd)
    }
  }
  return total
}
