import { type Clock, fileTimestamp, type Logger, Slices } from '@nexus/host'
import type { Failpoint } from '../files/failpoints.ts'
import { ACTIVE_SEGMENT, TEMP_PREFIX } from '../format/format.ts'
import {
  copyRange,
  copyRangeSync,
  removeQuietly,
  syncDir,
  syncDirSync,
  syncFile,
  type JournalFs,
} from '../files/journal-fs.ts'
import type { SealedFile } from '../format/journal-files.ts'
import type { DamageLog } from '../format/damage.ts'
import { describeSealed } from '../segment/segment-seq.ts'
import { examineEnd, findTail, firstSeq, missing } from '../segment/tail.ts'
import { ZstdSource } from '../segment/zstd-source.ts'

export interface OpenActiveOptions {
  fs: JournalFs
  clock: Clock
  logger: Logger
  failpoint: Failpoint
  /** Takes what is wrong with the end of the journal. */
  damage: DamageLog
}

/** The active segment, ready for the next line. */
export interface OpenedActive {
  fd: number
  sizeBytes: number
  /** Highest seq that the active segment or the newest sealed one holds; 0 in an empty journal. */
  lastSeq: number
}

/**
 * Opens the active segment for append, mends what a crash left, and finds the highest seq. The
 * caller has made the names in the directory durable: the sealed segment that holds dropped lines must not vanish.
 */
export async function openActive(
  dir: string,
  sealed: readonly SealedFile[],
  options: OpenActiveOptions,
): Promise<OpenedActive> {
  const { fs, damage } = options
  const fd = fs.openSync(`${dir}/${ACTIVE_SEGMENT}`, 'a+', 0o600)
  try {
    // The file may be new, and its lines can't be durable before its name is.
    if (fs.fstatSync(fd).size === 0) await syncDir(fs, dir)
    const active = { fd, sizeBytes: mendTail(dir, fd, options), lastSeq: 0 }
    active.lastSeq = examineEnd(fs, fd, active.sizeBytes, damage)
    return await joinSealed(dir, active, sealed, options)
  } catch (error) {
    fs.closeSync(fd)
    throw error
  }
}

function mendTail(dir: string, fd: number, { fs, clock, damage, failpoint }: OpenActiveOptions): number {
  const { size } = fs.fstatSync(fd)
  const tail = findTail(fs, fd, size)
  if (tail.newlineMissing) {
    fs.writeSync(fd, Buffer.from('\n'))
    failpoint('open:newline-added')
    return tail.goodBytes + 1
  }
  if (tail.goodBytes === size) return size
  const part = setAside(dir, fd, tail.goodBytes, size, fs, clock)
  failpoint('open:torn-part-written')
  fs.ftruncateSync(fd, tail.goodBytes)
  failpoint('open:torn-cut')
  const detail = `the last ${size - tail.goodBytes} bytes are no complete line${tail.zeros ? ', and begin with zeros, as a power loss leaves them' : ''}; they were set aside as ${part}`
  damage.add({ kind: 'torn', file: ACTIVE_SEGMENT, offset: tail.goodBytes, detail })
  return tail.goodBytes
}

/** Copies the torn end to `torn-<time>.part`. Never overwrites an earlier one. */
function setAside(dir: string, fd: number, from: number, to: number, fs: JournalFs, clock: Clock): string {
  for (let attempt = 0; ; attempt++) {
    const name = `torn-${fileTimestamp(clock.now())}${attempt === 0 ? '' : `-${attempt}`}.part`
    let part: number
    try {
      part = fs.openSync(`${dir}/${name}`, 'wx', 0o600)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'EEXIST') continue
      throw error
    }
    try {
      copyRangeSync(fs, fd, part, from, to)
      fs.fsyncSync(part)
    } finally {
      fs.closeSync(part)
    }
    syncDirSync(fs, dir)
    return name
  }
}

/** Takes over the highest seq of the sealed segments, and finishes the rotation that made the newest one. */
async function joinSealed(
  dir: string,
  active: OpenedActive,
  sealed: readonly SealedFile[],
  options: OpenActiveOptions,
): Promise<OpenedActive> {
  const { fs, damage } = options
  const first = firstSeq(fs, active.fd, active.sizeBytes)
  // The newest one answers, unless nothing of it can be read.
  for (const segment of sealed.toReversed()) {
    const lastSeq = await lastSeqOf(segment, options)
    if (lastSeq === 0) continue
    const joined = { ...active, lastSeq: Math.max(active.lastSeq, lastSeq) }
    if (first > lastSeq + 1) {
      const detail = missing(lastSeq + 1, first - 1)
      damage.add({ kind: 'gap', file: ACTIVE_SEGMENT, offset: 0, seq: lastSeq + 1, detail })
    }
    return first === 0 || first > lastSeq ? joined : await dropSealedPart(dir, joined, segment, options)
  }
  return active
}

/** The last seq of a sealed segment, up to its damage when there is some; 0 for none. */
async function lastSeqOf(segment: SealedFile, { fs, damage }: OpenActiveOptions): Promise<number> {
  const fd = fs.openSync(segment.path, 'r')
  try {
    return (
      await describeSealed(fs, fd, segment.path, ({ offset, message }) =>
        damage.add({ kind: 'segment', file: segment.name, offset, detail: message }),
      )
    ).lastSeq
  } finally {
    fs.closeSync(fd)
  }
}

/**
 * A crash between the rename of a sealed segment and the truncation leaves its lines in both. When the active segment
 * really begins with them, byte for byte, the truncation is finished; otherwise it is left for the reader to sort out.
 */
async function dropSealedPart(
  dir: string,
  active: OpenedActive,
  newest: SealedFile,
  { fs, logger, failpoint }: OpenActiveOptions,
): Promise<OpenedActive> {
  const shared = await commonPrefix(fs, active, newest)
  if (shared === undefined) {
    logger.warn({ dir, segment: newest.name }, 'the active segment repeats numbers of the newest sealed one')
    return active
  }
  failpoint('open:overlap-found')
  if (shared === active.sizeBytes) {
    fs.ftruncateSync(active.fd, 0)
    return { ...active, sizeBytes: 0 }
  }
  const temp = `${dir}/${TEMP_PREFIX}active`
  let fd: number | undefined
  try {
    fd = fs.openSync(temp, 'ax+', 0o600)
    await copyRange(fs, active.fd, fd, shared, active.sizeBytes)
    await syncFile(fs, fd)
    fs.renameSync(temp, `${dir}/${ACTIVE_SEGMENT}`)
    syncDirSync(fs, dir)
  } catch (error) {
    if (fd !== undefined) fs.closeSync(fd)
    removeQuietly(fs, temp)
    // Only a saving of space failed (the disk may be full): the reader tells repeated events apart by their ids.
    logger.warn({ err: error, dir, segment: newest.name }, 'lines that are sealed could not be dropped')
    return active
  }
  fs.closeSync(active.fd)
  return { ...active, fd, sizeBytes: active.sizeBytes - shared }
}

/** Length of the sealed segment's lines when the active segment begins with exactly them. */
async function commonPrefix(fs: JournalFs, active: OpenedActive, newest: SealedFile): Promise<number | undefined> {
  const sealed = fs.openSync(newest.path, 'r')
  const source = new ZstdSource(fs, sealed, newest.path)
  const ours = Buffer.allocUnsafe(128 * 1024)
  const theirs = Buffer.allocUnsafe(128 * 1024)
  const time = new Slices()
  let position = 0
  try {
    for (;;) {
      const n = source.read(theirs, 0, theirs.length)
      if (n === 0) return position
      if (position + n > active.sizeBytes) return undefined
      for (let have = 0; have < n;) {
        const got = fs.readSync(active.fd, ours, have, n - have, position + have)
        if (got === 0) return undefined
        have += got
      }
      if (ours.compare(theirs, 0, n, 0, n) !== 0) return undefined
      position += n
      const rest = time.rest()
      if (rest) await rest
    }
  } catch {
    // A damaged segment is no reason to cut anything.
    return undefined
  } finally {
    fs.closeSync(sealed)
  }
}
