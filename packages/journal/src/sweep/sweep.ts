import { createHash } from 'node:crypto'
import nodeFsModule from 'node:fs'
import { fromSystemError, NexusError, systemCode } from '@nexus/errors'
import { type Clock, type Logger, silentLogger, Slices, systemClock } from '@nexus/host'
import { holdDirectory } from '../files/held-directory.ts'
import { syncDir, type JournalFs } from '../files/journal-fs.ts'
import { listNames, sealedFiles, type SealedFile } from '../format/journal-files.ts'
import { INTENT_FILE } from '../format/rewind-intent.ts'
import { loadSwept, writeSwept, type SweptSegment } from '../format/swept.ts'
import { PlainSource } from '../segment/byte-source.ts'
import { readLastSeqOfSegment } from '../segment/segment-seq.ts'

const DAY_MS = 24 * 60 * 60 * 1000
const READ_BYTES = 256 * 1024

/** What a commit in a store says of a file. */
export interface CommittedSegment {
  sizeBytes: number
  /** 64 lowercase hex digits. */
  sha256: string
}

/** A session that is held for {@link sweep}. */
export interface SweepClaim {
  /** The sealed segments that the session's newest commit names, by file name. Nothing else is ever removed. */
  committed: ReadonlyMap<string, CommittedSegment>
  /** Called when the session was swept, or was found to have nothing to sweep. */
  release(): void | Promise<void>
}

/** How {@link sweep} goes. */
export interface SweepOptions {
  /**
   * Asked, with the session's id, before anything of a session is removed: takes its lock, so that it is not opened
   * meanwhile, and says what is committed. Undefined keeps everything.
   */
  claim: (sessionId: string) => Promise<SweepClaim | undefined>
  clock?: Clock
  logger?: Logger
  signal?: AbortSignal | undefined
}

/**
 * Removes sealed segments that were not written to for `days` days and that a commit holds byte for byte, from the oldest
 * on; what they were is noted in `swept.json`, which readers and the next boot go by. The newest sealed segment and the
 * active one stay: they tell where the journal goes on. Names that begin with a dot are no sessions.
 *
 * @param days 0 keeps everything
 * @returns ids of the sessions that segments were removed from
 * @throws `INVALID_ARGUMENT`; `LOCAL_IO` when `root` can't be listed. A session that can't be swept is logged and kept.
 * @see docs/concepts/journal.md
 */
export async function sweep(root: string, days: number, options: SweepOptions): Promise<string[]> {
  if (!(days >= 0)) throw invalid('days', `days is ${days}; it must be 0 or more`)
  if (typeof options?.claim !== 'function')
    throw invalid('claim', 'a sweep needs to be told what is committed: give `claim`')
  const { clock = systemClock, logger = silentLogger, signal } = options
  const sweptIds: string[] = []
  if (days === 0) return sweptIds
  const beforeMs = clock.now() - days * DAY_MS
  const slices = new Slices({ signal })
  for (const id of sessionIds(root)) {
    await slices.rest()
    signal?.throwIfAborted()
    const dir = `${root}/${id}/journal`
    let held: ReturnType<typeof holdDirectory> | undefined
    try {
      held = holdDirectory(dir, undefined)
      const segments = await sweepSession(dir, id, beforeMs, held.fs, options)
      if (segments.length === 0) continue
      sweptIds.push(id)
      logger.info({ session_id: id, days, segments }, 'removed old journal segments that the store holds')
    } catch (error) {
      signal?.throwIfAborted()
      logger.warn({ err: error, session_id: id }, 'old journal segments could not be removed')
    } finally {
      held?.close()
    }
  }
  return sweptIds
}

function invalid(key: string, message: string): NexusError {
  return new NexusError('INVALID_ARGUMENT', message, { op: 'journal.sweep', key })
}

function sessionIds(root: string): string[] {
  try {
    const entries = nodeFsModule.readdirSync(root, { withFileTypes: true })
    return entries.filter((entry) => entry.isDirectory() && !entry.name.startsWith('.')).map(({ name }) => name)
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return []
    throw fromSystemError(error, 'journal.sweep', root)
  }
}

async function sweepSession(
  dir: string,
  id: string,
  beforeMs: number,
  fs: JournalFs,
  options: SweepOptions,
): Promise<string[]> {
  // Most sessions have nothing to sweep, and are not locked for that.
  if (oldSegments(fs, dir, beforeMs).length === 0) return []
  const claim = await options.claim(id)
  if (!claim) return []
  try {
    const doomed: SweptSegment[] = []
    for (const segment of oldSegments(fs, dir, beforeMs)) {
      const verified = await asCommitted(fs, segment, claim.committed.get(segment.name), options.signal)
      // What is left begins where this ends: a hole in the middle would be damage.
      if (!verified) break
      doomed.push(verified)
    }
    if (doomed.length > 0) await remove(fs, dir, doomed)
    return doomed.map(({ name }) => name)
  } finally {
    await claim.release()
  }
}

/** Sealed segments that may be old enough, oldest first, without the newest. None while a rewind is unfinished. */
function oldSegments(fs: JournalFs, dir: string, beforeMs: number): SealedFile[] {
  const names = listNames(fs, dir)
  if (names.includes(INTENT_FILE)) return []
  const sealed = sealedFiles(dir, names).slice(0, -1)
  const firstYoung = sealed.findIndex(({ path }) => statOf(fs, path).mtimeMs >= beforeMs)
  return firstYoung === -1 ? sealed : sealed.slice(0, firstYoung)
}

function statOf(fs: JournalFs, path: string): nodeFsModule.Stats {
  const fd = fs.openSync(path, 'r')
  try {
    return fs.fstatSync(fd)
  } finally {
    fs.closeSync(fd)
  }
}

/** What is noted of a segment that has the committed bytes; undefined for any other. */
async function asCommitted(
  fs: JournalFs,
  { name, path }: SealedFile,
  committed: CommittedSegment | undefined,
  signal: AbortSignal | undefined,
): Promise<SweptSegment | undefined> {
  if (committed === undefined || statOf(fs, path).size !== committed.sizeBytes) return undefined
  if ((await digestOf(fs, path, signal)) !== committed.sha256) return undefined
  const lastSeq = await readLastSeqOfSegment(path, fs)
  return { name, last_seq: lastSeq, size_bytes: committed.sizeBytes, sha256: committed.sha256 }
}

async function digestOf(fs: JournalFs, path: string, signal: AbortSignal | undefined): Promise<string> {
  const fd = fs.openSync(path, 'r')
  try {
    const [source, hash, time] = [new PlainSource(fs, fd), createHash('sha256'), new Slices({ signal: signal })]
    const buffer = Buffer.allocUnsafe(READ_BYTES)
    for (let n = source.read(buffer, 0, READ_BYTES); n > 0; n = source.read(buffer, 0, READ_BYTES)) {
      hash.update(buffer.subarray(0, n))
      const rest = time.rest()
      if (rest) await rest
    }
    return hash.digest('hex')
  } finally {
    fs.closeSync(fd)
  }
}

/** Noted first: a segment that is named and still there counts as there, one that is gone unnamed would be damage. */
async function remove(fs: JournalFs, dir: string, doomed: readonly SweptSegment[]): Promise<void> {
  const names = new Set(doomed.map(({ name }) => name))
  writeSwept(dir, [...loadSwept(dir, fs).filter(({ name }) => !names.has(name)), ...doomed], fs)
  for (const name of names) fs.unlinkSync(`${dir}/${name}`)
  await syncDir(fs, dir)
}
