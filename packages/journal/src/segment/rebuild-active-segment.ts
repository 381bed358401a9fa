import { fromSystemError, isNexusError } from '@nexus/errors'
import { copyLines } from './copy-lines.ts'
import { TEMP_PREFIX } from '../format/format.ts'
import { nodeFs, removeQuietly, syncDir, syncFile, type JournalFs } from '../files/journal-fs.ts'
import { ZstdSource } from './zstd-source.ts'

/** What {@link rebuildActiveSegment} works from. */
export interface RebuildOptions {
  /** The sealed segment that took the lines over. */
  sealedPath: string
  /** The last seq the rebuilt segment holds. */
  lastSeq: number
  destPath: string
  fs?: JournalFs
}

/** A rebuilt segment. */
export interface RebuiltSegment {
  events: number
  /** Below what was asked for when the sealed segment ends earlier; 0 when it holds nothing up to there. */
  lastSeq: number
  sizeBytes: number
}

/**
 * Writes the active segment as it was when it ended at `lastSeq`, from the sealed segment that a rotation made of it: the
 * same bytes. Durable, and in place in one step.
 *
 * @throws `CORRUPT` for a damaged segment, `NOT_FOUND`, `LOCAL_IO`; `destPath` is untouched then
 * @see docs/concepts/journal.md
 */
export async function rebuildActiveSegment(options: RebuildOptions): Promise<RebuiltSegment> {
  const { sealedPath, lastSeq, destPath, fs = nodeFs } = options
  const slash = destPath.lastIndexOf('/')
  const dir = slash === -1 ? '.' : destPath.slice(0, slash)
  const temp = `${dir}/${TEMP_PREFIX}rebuild`
  try {
    const rebuilt = await writeRebuilt(fs, sealedPath, temp, lastSeq)
    fs.renameSync(temp, destPath)
    await syncDir(fs, dir)
    return rebuilt
  } catch (error) {
    removeQuietly(fs, temp)
    throw isNexusError(error) ? error : fromSystemError(error, 'journal.rebuild', sealedPath)
  }
}

async function writeRebuilt(fs: JournalFs, sealedPath: string, temp: string, lastSeq: number): Promise<RebuiltSegment> {
  const source = fs.openSync(sealedPath, 'r')
  try {
    const dest = fs.openSync(temp, 'w', 0o600)
    try {
      const copied = await copyLines(fs, new ZstdSource(fs, source, sealedPath), dest, { above: 0, upTo: lastSeq })
      await syncFile(fs, dest)
      return { events: copied.events, lastSeq: copied.lastSeq, sizeBytes: copied.sizeBytes }
    } finally {
      fs.closeSync(dest)
    }
  } finally {
    fs.closeSync(source)
  }
}
