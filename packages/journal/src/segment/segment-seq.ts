import { fromSystemError, isNexusError } from '@nexus/errors'
import { Slices } from '@nexus/host'
import { SegmentDamagedError } from '../format/damage.ts'
import { nodeFs, type JournalFs } from '../files/journal-fs.ts'
import { LineReader } from './line-reader.ts'
import { readFooter, type SegmentFooter } from './segment-footer.ts'
import { isSealed } from './segment-source.ts'
import { examineEnd, findTail, seqOf } from './tail.ts'
import { ZstdSource } from './zstd-source.ts'

/**
 * The highest seq in a segment file, sealed or plain; 0 when it holds no event. A sealed segment of this package answers
 * from its last bytes; one without a footer is read through.
 *
 * @throws `CORRUPT` when a sealed segment without a footer is damaged, `NOT_FOUND` when there is no such file
 */
export async function readLastSeqOfSegment(path: string, fs: JournalFs = nodeFs): Promise<number> {
  try {
    const fd = fs.openSync(path, 'r')
    try {
      if (isSealed(path)) return (await describeSealed(fs, fd, path)).lastSeq
      const { size } = fs.fstatSync(fd)
      return Math.max(examineEnd(fs, fd, size), findTail(fs, fd, size).last?.seq ?? 0)
    } finally {
      fs.closeSync(fd)
    }
  } catch (error) {
    throw isNexusError(error) ? error : fromSystemError(error, 'journal.read', path)
  }
}

/**
 * What an open sealed segment says about itself, or what reading it through shows.
 *
 * @param onDamage takes a damage; the answer is then that of what comes before it. Without it, `CORRUPT` is thrown
 */
export async function describeSealed(
  fs: JournalFs,
  fd: number,
  path: string,
  onDamage?: (damage: SegmentDamagedError) => void,
): Promise<SegmentFooter> {
  const footer = readFooter(fd, fs)
  if (footer) return footer
  const found = { firstSeq: 0, lastSeq: 0, expandedBytes: 0 }
  try {
    await readThrough(fs, fd, path, found)
  } catch (error) {
    if (!onDamage || !(error instanceof SegmentDamagedError)) throw error
    onDamage(error)
  }
  return found
}

async function readThrough(fs: JournalFs, fd: number, path: string, found: SegmentFooter): Promise<void> {
  const lines = new LineReader(new ZstdSource(fs, fd, path), () => undefined)
  const time = new Slices()
  for (let batch = lines.next(); batch; batch = lines.next()) {
    for (const line of batch.lines) {
      const seq = seqOf(line)
      if (found.firstSeq === 0) found.firstSeq = seq
      found.lastSeq = Math.max(found.lastSeq, seq)
    }
    const rest = time.rest()
    if (rest) await rest
  }
}
