import nodeFsModule from 'node:fs'
import { NexusError } from '@nexus/errors'
import { Slices } from '@nexus/host'

/**
 * The file functions the journal calls, so that tests can fail, tear or record them. Writes and reads are synchronous
 * (they go through the page cache in small pieces); only syncs, which wait for the disk, are asynchronous.
 */
export type JournalFs = Pick<
  typeof nodeFsModule,
  | 'openSync'
  | 'closeSync'
  | 'readSync'
  | 'writeSync'
  | 'ftruncateSync'
  | 'fstatSync'
  | 'fsyncSync'
  | 'fdatasync'
  | 'fsync'
  | 'renameSync'
  | 'unlinkSync'
  | 'linkSync'
  | 'readdirSync'
  | 'mkdirSync'
  | 'rmSync'
>

/**
 * The file system of this machine, except that it opens plain files and directories only: a tool that works in the session may
 * have put a link in a file's place, which would have us write to what it points to, or a FIFO, which would block us.
 */
export const nodeFs: JournalFs = { ...nodeFsModule, openSync: openPlain }

const { O_RDONLY, O_RDWR, O_WRONLY, O_APPEND, O_CREAT, O_EXCL, O_TRUNC } = nodeFsModule.constants
// Neither exists on Windows, where a link takes a privilege and a FIFO is no file.
const SAFELY = (nodeFsModule.constants.O_NOFOLLOW ?? 0) | (nodeFsModule.constants.O_NONBLOCK ?? 0)
const FLAGS: Readonly<Record<string, number>> = {
  r: O_RDONLY,
  a: O_WRONLY | O_APPEND | O_CREAT,
  'a+': O_RDWR | O_APPEND | O_CREAT,
  'ax+': O_RDWR | O_APPEND | O_CREAT | O_EXCL,
  w: O_WRONLY | O_CREAT | O_TRUNC,
  wx: O_WRONLY | O_CREAT | O_EXCL,
}

/** Opens a plain file or directory. `shown` is the path that an error names. */
export function openPlain(
  path: nodeFsModule.PathLike,
  flags: nodeFsModule.OpenMode,
  mode?: nodeFsModule.Mode | null,
  shown: nodeFsModule.PathLike = path,
): number {
  const bits = FLAGS[String(flags)]
  if (bits === undefined) throw new TypeError(`the journal opens no file with ${flags}`)
  let fd: number
  try {
    fd = nodeFsModule.openSync(path, bits | SAFELY, mode)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    throw code === 'ELOOP' || code === 'ENXIO' ? notPlain(shown, error) : error
  }
  const stat = nodeFsModule.fstatSync(fd)
  if (stat.isFile() || (stat.isDirectory() && flags === 'r')) return fd
  nodeFsModule.closeSync(fd)
  throw notPlain(shown)
}

/** What is thrown for a path that leads to something else than a plain file or directory. */
export function notPlain(path: nodeFsModule.PathLike, cause?: unknown): NexusError {
  const message = `${String(path)} is a link or another special file, and the journal keeps to plain ones: remove it`
  return new NexusError('LOCAL_IO', message, { op: 'journal.open', key: String(path), cause })
}

/** Writes all of `bytes` at the descriptor's position (or its end, when opened for append), however many calls it takes. */
export function writeFully(fs: JournalFs, fd: number, bytes: Uint8Array): void {
  let done = 0
  while (done < bytes.length) {
    const n = fs.writeSync(fd, bytes, done, bytes.length - done)
    if (n === 0) throw new NexusError('LOCAL_IO', 'the disk takes no more bytes', { op: 'journal.write' })
    done += n
  }
}

/** Makes the names in a directory durable: a created or renamed file may vanish in a power loss before this. */
export function syncDirSync(fs: JournalFs, dir: string): void {
  const fd = fs.openSync(dir, 'r')
  try {
    fs.fsyncSync(fd)
  } finally {
    fs.closeSync(fd)
  }
}

/** {@link syncDirSync} without blocking the event loop. */
export async function syncDir(fs: JournalFs, dir: string): Promise<void> {
  const fd = fs.openSync(dir, 'r')
  try {
    await syncFile(fs, fd)
  } finally {
    fs.closeSync(fd)
  }
}

/** Waits until everything written to `fd` is on the disk. */
export function syncFile(fs: JournalFs, fd: number): Promise<void> {
  return new Promise((resolve, reject) => {
    fs.fsync(fd, (error) => (error ? reject(error) : resolve()))
  })
}

/** Like {@link syncFile}, without metadata that isn't needed to read the data back. */
export function syncData(fs: JournalFs, fd: number): Promise<void> {
  return new Promise((resolve, reject) => {
    fs.fdatasync(fd, (error) => (error ? reject(error) : resolve()))
  })
}

/**
 * Replaces `dir/name` in one step: temp file, fsync, rename, fsync of the directory. A crash leaves the old content or
 * the new one.
 */
export function replaceFileSync(fs: JournalFs, dir: string, name: string, tempName: string, bytes: Uint8Array): void {
  const temp = `${dir}/${tempName}`
  const fd = fs.openSync(temp, 'w', 0o600)
  try {
    writeFully(fs, fd, bytes)
    fs.fsyncSync(fd)
  } finally {
    fs.closeSync(fd)
  }
  fs.renameSync(temp, `${dir}/${name}`)
  syncDirSync(fs, dir)
}

/** Reads a small file whole, or undefined when there is none. */
export function readSmallFile(fs: JournalFs, path: string, maxBytes: number): Buffer | undefined {
  let fd: number
  try {
    fd = fs.openSync(path, 'r')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
  try {
    const buffer = Buffer.alloc(Math.min(fs.fstatSync(fd).size, maxBytes))
    let have = 0
    while (have < buffer.length) {
      const n = fs.readSync(fd, buffer, have, buffer.length - have, have)
      if (n === 0) break
      have += n
    }
    return buffer.subarray(0, have)
  } finally {
    fs.closeSync(fd)
  }
}

const COPY_BYTES = 256 * 1024

/** Appends bytes `from`..`to` of one file to another, leaving the event loop free every few milliseconds. */
export async function copyRange(fs: JournalFs, source: number, dest: number, from: number, to: number): Promise<void> {
  const buffer = Buffer.allocUnsafe(Math.min(COPY_BYTES, Math.max(0, to - from)))
  const time = new Slices()
  for (let position = from; position < to;) {
    position += copyPiece(fs, source, dest, position, to, buffer)
    const rest = time.rest()
    if (rest) await rest
  }
}

/** {@link copyRange} in one go, for a remainder that is known to be small. */
export function copyRangeSync(fs: JournalFs, source: number, dest: number, from: number, to: number): void {
  const buffer = Buffer.allocUnsafe(Math.min(COPY_BYTES, Math.max(0, to - from)))
  for (let position = from; position < to;) position += copyPiece(fs, source, dest, position, to, buffer)
}

function copyPiece(fs: JournalFs, source: number, dest: number, from: number, to: number, buffer: Buffer): number {
  const n = fs.readSync(source, buffer, 0, Math.min(buffer.length, to - from), from)
  if (n === 0)
    throw new NexusError('LOCAL_IO', `file ends at byte ${from}, ${to} were expected`, { op: 'journal.copy' })
  writeFully(fs, dest, buffer.subarray(0, n))
  return n
}

/** Removes a file of our own that may not be there. A failure is left to the next open, which removes leftovers. */
export function removeQuietly(fs: JournalFs, path: string): void {
  try {
    fs.unlinkSync(path)
  } catch {
    return
  }
}

/** Copies a file durably. */
export async function copyFile(fs: JournalFs, from: string, to: string): Promise<void> {
  const source = fs.openSync(from, 'r')
  try {
    const dest = fs.openSync(to, 'w', 0o600)
    try {
      await copyRange(fs, source, dest, 0, fs.fstatSync(source).size)
      await syncFile(fs, dest)
    } finally {
      fs.closeSync(dest)
    }
  } finally {
    fs.closeSync(source)
  }
}

/** A second name for a file that never changes, or a copy where the file system has no links. */
export async function linkOrCopy(fs: JournalFs, from: string, to: string): Promise<void> {
  try {
    fs.linkSync(from, to)
  } catch {
    await copyFile(fs, from, to)
  }
}
