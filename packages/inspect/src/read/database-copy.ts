import { closeSync, openSync, readSync, type BigIntStats } from 'node:fs'
import { copyFile, lstat, rm } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import Database from 'better-sqlite3'
import { NexusError, systemCode } from '@nexus/errors'
import { noFailpoint, type Failpoint } from '@nexus/host'

const WAL_HEADER_BYTES = 32
const TRIES = 200
const PAUSE_MS = 25
// Two changes within one tick of a file system's clock leave the same time.
const RACY_MS = 50

interface Sample {
  database: string
  wal: string
  journal: string
  /** The first bytes of the WAL: its salts differ after every reset. '' when there is nothing in it. */
  walHeader: string
  /** It was changed a moment ago: an equal sample later would prove nothing. */
  racy: boolean
}

/**
 * Copies a SQLite database with what lies beside it, without a lock and without opening it through SQLite, which would make
 * or change a file beside it.
 *
 * Pages that a checkpoint puts into the database stand in the WAL until it is reset, and a reset changes its header. So a
 * copy of the database *followed* by one of the WAL is one instant when the header is the same before and after: what was
 * torn in the first is whole in the second. Without a WAL nothing may have changed at all.
 *
 * Not for a process that has the database open itself: closing a descriptor drops the locks that SQLite holds there.
 *
 * @returns the path of the copy in `destDir`, an existing directory of the caller's
 * @throws NexusError `UNAVAILABLE` when it changes faster than it can be copied; the system error of a missing file
 */
export async function copyDatabase(
  path: string,
  destDir: string,
  { signal, failpoint = noFailpoint }: { signal?: AbortSignal | undefined; failpoint?: Failpoint } = {},
): Promise<string> {
  const copy = join(destDir, basename(path))
  for (let attempt = 1; attempt <= TRIES; attempt++) {
    signal?.throwIfAborted()
    const before = await sample(path)
    await copyFile(path, copy)
    await failpoint('inspect:database-copied')
    await copyIfThere(`${path}-wal`, `${copy}-wal`)
    await copyIfThere(`${path}-journal`, `${copy}-journal`)
    if (isOneInstant(before, await sample(path))) return copy
    await delay(PAUSE_MS, undefined, signal === undefined ? {} : { signal })
  }
  throw new NexusError('UNAVAILABLE', `${path} changes faster than it can be copied: try again when less is written`, {
    op: 'inspect.database',
    key: path,
  })
}

function isOneInstant(before: Sample, after: Sample): boolean {
  if (before.walHeader !== '' && before.walHeader === after.walHeader) return before.journal === after.journal
  const isSame = before.database === after.database && before.wal === after.wal && before.journal === after.journal
  return isSame && !before.racy
}

async function sample(path: string): Promise<Sample> {
  const [database, wal, journal] = await Promise.all([path, `${path}-wal`, `${path}-journal`].map(statIfThere))
  if (database === undefined) throw Object.assign(new Error(`${path} does not exist`), { code: 'ENOENT', path })
  const nowMs = Date.now()
  const isRacy = (stats: BigIntStats | undefined): boolean => nowMs - Number(stats?.ctimeMs ?? 0n) < RACY_MS
  return {
    database: stateOf(database),
    wal: stateOf(wal),
    journal: stateOf(journal),
    walHeader: wal === undefined || wal.size === 0n ? '' : headerOf(`${path}-wal`),
    racy: [database, wal, journal].some(isRacy),
  }
}

function stateOf(stats: BigIntStats | undefined): string {
  return stats === undefined ? '' : [stats.dev, stats.ino, stats.size, stats.mtimeNs, stats.ctimeNs].join(':')
}

async function statIfThere(path: string): Promise<BigIntStats | undefined> {
  return await ifThere(lstat(path, { bigint: true }))
}

// The copy of an earlier attempt may be longer, or of a file that is gone now.
async function copyIfThere(from: string, to: string): Promise<void> {
  await rm(to, { force: true })
  await ifThere(copyFile(from, to))
}

async function ifThere<T>(looking: Promise<T>): Promise<T | undefined> {
  try {
    return await looking
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return undefined
    throw error
  }
}

// No lock of SQLite is on a WAL, so it may be opened and closed.
function headerOf(path: string): string {
  try {
    const fd = openSync(path, 'r')
    try {
      const bytes = Buffer.alloc(WAL_HEADER_BYTES)
      return bytes.toString('hex', 0, readSync(fd, bytes, 0, WAL_HEADER_BYTES, 0))
    } finally {
      closeSync(fd)
    }
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return ''
    throw error
  }
}

/** Folds what lies beside a copy into it, so that the file alone is the database. Throws what SQLite throws. */
export function settleDatabase(copy: string): void {
  const db = new Database(copy, { fileMustExist: true })
  try {
    // Rolls a journal back, too: SQLite does when it first reads.
    db.pragma('wal_checkpoint(TRUNCATE)')
  } finally {
    db.close()
  }
}
