import { NexusError } from '@nexus/errors'
import type { DurableLog, FileState } from '../log/durable-log.ts'
import type { Failpoint } from '../files/failpoints.ts'
import { ACTIVE_SEGMENT, MAX_SEGMENT_BYTES, segmentName, TEMP_PREFIX } from '../format/format.ts'
import { copyRange, copyRangeSync, removeQuietly, syncDir, syncFile, type JournalFs } from '../files/journal-fs.ts'
import { sealSegment } from '../segment/seal-segment.ts'
import { findTail, firstSeq } from '../segment/tail.ts'

export interface RotationOptions {
  fs: JournalFs
  dir: string
  log: DurableLog
  /** Of the new segment; above every number in use. */
  number: number
  failpoint: Failpoint
  /** Most that goes into one segment, in bytes. Default {@link MAX_SEGMENT_BYTES}. */
  maxBytes?: number
}

/** A finished rotation. */
export interface SealedSegment {
  name: string
  number: number
  lastSeq: number
  sizeBytes: number
}

/**
 * Seals what the active segment holds now. Appends go on meanwhile: they land behind the part that is being compressed
 * and are what the active segment begins with afterwards, so an event that must be with the kernel before its handlers
 * run never waits for a rotation.
 *
 * The order makes every crash harmless: the compressed file is synced before it gets its name, the name is durable before
 * the lines leave the active segment. In between they exist twice, with the same ids.
 *
 * On failure nothing has changed but, at most, that lines exist twice. Undefined when there was nothing to seal.
 */
export async function rotate(options: RotationOptions): Promise<SealedSegment | undefined> {
  const { fs, dir, log, failpoint } = options
  if (!log.flush() || log.sizeBytes === 0) return undefined
  const name = segmentName(options.number)
  const temp = `${dir}/${TEMP_PREFIX}${name}`
  // A descriptor of our own: a failed sync may make the log move to another file meanwhile.
  const fd = fs.openSync(`${dir}/${ACTIVE_SEGMENT}`, 'r')
  let cut: Cut
  let sizeBytes: number
  try {
    cut = sealablePart(fs, fd, log, options.maxBytes ?? MAX_SEGMENT_BYTES)
    const failures = log.syncFailures
    failpoint('rotate:begin')
    sizeBytes = await sealSegment(fs, { fd, ...cut }, temp, () => failpoint('rotate:slice'))
    failpoint('rotate:sealed')
    // A failed sync means that what was read above may not be what was written.
    await log.durableInTime()
    if (log.syncFailures !== failures) throw log.error ?? new NexusError('LOCAL_IO', 'a sync failed during rotation')
    fs.renameSync(temp, `${dir}/${name}`)
  } catch (error) {
    removeQuietly(fs, temp)
    throw error
  } finally {
    fs.closeSync(fd)
  }
  failpoint('rotate:renamed')
  await syncDir(fs, dir)
  failpoint('rotate:dir-synced')
  await log.exclusive(() => dropSealed(options, cut.sizeBytes))
  return { name, number: options.number, lastSeq: cut.lastSeq, sizeBytes }
}

interface Cut {
  sizeBytes: number
  firstSeq: number
  lastSeq: number
}

function sealablePart(fs: JournalFs, fd: number, log: DurableLog, maxBytes: number): Cut {
  const first = firstSeq(fs, fd, log.sizeBytes)
  if (log.sizeBytes <= maxBytes) return { sizeBytes: log.sizeBytes, firstSeq: first, lastSeq: log.writtenSeq }
  const tail = findTail(fs, fd, maxBytes - 1)
  return { sizeBytes: tail.goodBytes + (tail.newlineMissing ? 1 : 0), firstSeq: first, lastSeq: tail.last?.seq ?? 0 }
}

/** Takes the sealed lines out of the active segment. Runs while no sync is going on. */
async function dropSealed(options: RotationOptions, cutBytes: number): Promise<void> {
  const { fs, log, failpoint } = options
  // While the disk fails the lines stay in both places.
  if (!log.flush()) return
  if (log.sizeBytes > cutBytes) return moveTail(options, cutBytes)
  fs.ftruncateSync(log.fd, 0)
  failpoint('rotate:truncated')
  log.replaceFile({ fd: log.fd, sizeBytes: 0, syncedSeq: log.writtenSeq })
}

/** How much may be copied in one go, right before the new file takes the name. */
const LAST_COPY_BYTES = 1024 * 1024

async function moveTail({ fs, dir, log, failpoint }: RotationOptions, cutBytes: number): Promise<void> {
  const temp = `${dir}/${TEMP_PREFIX}active`
  removeQuietly(fs, temp)
  const fd = fs.openSync(temp, 'ax+', 0o600)
  const old = log.fd
  let copied = cutBytes
  let state: FileState
  try {
    let syncedSeq: number
    do {
      const end = log.sizeBytes
      syncedSeq = log.writtenSeq
      await copyRange(fs, old, fd, copied, end)
      copied = end
      failpoint('rotate:tail-copied')
      await syncFile(fs, fd)
    } while (log.sizeBytes - copied > LAST_COPY_BYTES)
    failpoint('rotate:tail-synced')
    // From here to the switch nothing may come in between.
    copyRangeSync(fs, old, fd, copied, log.sizeBytes)
    state = { fd, sizeBytes: log.sizeBytes - cutBytes, syncedSeq }
    fs.renameSync(temp, `${dir}/${ACTIVE_SEGMENT}`)
  } catch (error) {
    fs.closeSync(fd)
    removeQuietly(fs, temp)
    throw error
  }
  log.replaceFile(state)
  fs.closeSync(old)
  failpoint('rotate:tail-renamed')
  try {
    await syncDir(fs, dir)
  } catch (error) {
    // Until the new name is durable nothing written to the new file is.
    log.distrust(error)
    throw error
  }
}
