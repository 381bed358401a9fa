import { PlainSource, type ByteSource } from './byte-source.ts'
import { segmentNumber } from '../format/format.ts'
import type { JournalFs } from '../files/journal-fs.ts'
import { ZstdSource } from './zstd-source.ts'

/** Whether the file at `path` is a sealed segment, by its name. */
export function isSealed(path: string): boolean {
  return segmentNumber(path.slice(path.lastIndexOf('/') + 1)) !== undefined
}

/** The lines of a segment file, sealed or plain, as bytes. */
export function segmentSource(fs: JournalFs, fd: number, path: string): ByteSource {
  return isSealed(path) ? new ZstdSource(fs, fd, path) : new PlainSource(fs, fd)
}
