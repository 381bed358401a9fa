import { NexusError } from '@nexus/errors'
import type { DurableLog } from '../log/durable-log.ts'
import type { Failpoint } from '../files/failpoints.ts'
import { ACTIVE_SEGMENT, HEADER_FILE } from '../format/format.ts'
import { listNames, sealedFiles } from '../format/journal-files.ts'
import { copyRange, type JournalFs } from '../files/journal-fs.ts'

/** A file of a snapshot. */
export interface SnapshotFile {
  name: string
  path: string
  sizeBytes: number
}

/** The journal at one instant. */
export interface JournalSnapshot {
  /** In place: never changes. */
  header: SnapshotFile
  /** In place, ascending: sealed segments never change. */
  sealed: SnapshotFile[]
  /** A copy in the destination directory. */
  active: SnapshotFile
  /** Seq of the last event in the snapshot; 0 for none. */
  lastSeq: number
}

export interface SnapshotOptions {
  fs: JournalFs
  dir: string
  destDir: string
  log: DurableLog
  /** The log is closed: its descriptor is gone, and its number may be another file's. */
  isClosed: boolean
  failpoint: Failpoint
  signal: AbortSignal | undefined
}

/** Names the sealed segments and copies the active one. The caller keeps rotations away meanwhile. */
export async function snapshotJournal(options: SnapshotOptions): Promise<JournalSnapshot> {
  const { fs, dir, destDir, log, isClosed, failpoint, signal } = options
  signal?.throwIfAborted()
  // The instant: a size, a seq and a list of names, taken in one tick. Later appends land behind that size.
  const source = fs.openSync(`${dir}/${ACTIVE_SEGMENT}`, 'r')
  try {
    if (!isClosed) refuseOther(fs, source, log.fd, `${dir}/${ACTIVE_SEGMENT}`)
    const [sizeBytes, lastSeq] = [log.sizeBytes, log.writtenSeq]
    const sealed = sealedFiles(dir, listNames(fs, dir)).map(({ name, path }) => describe(fs, name, path))
    const header = describe(fs, HEADER_FILE, `${dir}/${HEADER_FILE}`)
    failpoint('snapshot:begin')
    const path = `${destDir}/${ACTIVE_SEGMENT}`
    await copyActive(fs, source, path, sizeBytes)
    failpoint('snapshot:copied')
    signal?.throwIfAborted()
    return { header, sealed, active: { name: ACTIVE_SEGMENT, path, sizeBytes }, lastSeq }
  } finally {
    fs.closeSync(source)
  }
}

/** What is at the name may be another file by now, or a link to one: nothing of it may get into a snapshot. */
function refuseOther(fs: JournalFs, found: number, ours: number, path: string): void {
  const [named, written] = [fs.fstatSync(found), fs.fstatSync(ours)]
  if (named.ino === written.ino && named.dev === written.dev) return
  throw new NexusError('CORRUPT', `${path} is not the file that the journal writes to: put that one back`, {
    op: 'journal.snapshot',
    key: path,
  })
}

async function copyActive(fs: JournalFs, source: number, path: string, sizeBytes: number): Promise<void> {
  // Appending, so that opening the journal's own file by mistake does not empty it.
  const dest = fs.openSync(path, 'a', 0o600)
  try {
    const [from, to] = [fs.fstatSync(source), fs.fstatSync(dest)]
    if (from.ino === to.ino && from.dev === to.dev) {
      throw new NexusError('INVALID_ARGUMENT', `a snapshot of the journal cannot go to the journal itself: ${path}`, {
        op: 'journal.snapshot',
        key: path,
      })
    }
    fs.ftruncateSync(dest, 0)
    await copyRange(fs, source, dest, 0, sizeBytes)
  } finally {
    fs.closeSync(dest)
  }
}

function describe(fs: JournalFs, name: string, path: string): SnapshotFile {
  const fd = fs.openSync(path, 'r')
  try {
    return { name, path, sizeBytes: fs.fstatSync(fd).size }
  } finally {
    fs.closeSync(fd)
  }
}
