import nodeFsModule from 'node:fs'
import { fromSystemError, NexusError, systemCode } from '@nexus/errors'
import { systemClock, type Clock } from '../clock.ts'
import { HEADER_FILE, TEMP_PREFIX } from '../format/format.ts'
import { silentLogger, type Logger } from '../logger.ts'

const DAY_MS = 24 * 60 * 60 * 1000

/** What {@link sweep} may remove. */
export interface SweepOptions {
  /**
   * Asked before each removal, with the session's id; the engine keeps those that are locked, being opened, or whose last
   * snapshot failed. Default: all may go.
   */
  mayRemove?: (sessionId: string) => boolean | Promise<boolean>
  clock?: Clock
  logger?: Logger
  signal?: AbortSignal
}

/**
 * Removes the journals of sessions below `root` in which nothing was written for `days` days; the rest of each session
 * stays. Sessions that were set aside (names that begin with a dot) are left alone.
 *
 * @param days 0 keeps everything
 * @returns ids of the sessions whose journal was removed
 * @throws `INVALID_ARGUMENT`; `LOCAL_IO` when `root` can't be listed. A journal that can't be removed is logged and kept.
 */
export async function sweep(root: string, days: number, options: SweepOptions = {}): Promise<string[]> {
  if (!(days >= 0)) {
    throw new NexusError('INVALID_ARGUMENT', `days is ${days}; it must be 0 or more`, {
      op: 'journal.sweep',
      key: 'days',
    })
  }
  const { clock = systemClock, logger = silentLogger, signal } = options
  const removed: string[] = []
  if (days === 0) return removed
  const before = clock.now() - days * DAY_MS
  for (const id of sessionIds(root)) {
    signal?.throwIfAborted()
    try {
      if (!(await sweepSession(root, id, before, options))) continue
      removed.push(id)
      logger.info({ session_id: id, days }, 'removed the journal of a session that was idle for too long')
    } catch (error) {
      logger.warn({ err: error, session_id: id }, 'the journal of an idle session could not be removed')
    }
  }
  return removed
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

async function sweepSession(root: string, id: string, before: number, options: SweepOptions): Promise<boolean> {
  const dir = `${root}/${id}`
  const last = lastWrittenMs(`${dir}/journal`)
  if (last === undefined || last >= before) return false
  if (options.mayRemove && !(await options.mayRemove(id))) return false
  // Renamed first: a journal that is only half removed would look like a damaged one.
  const doomed = `${dir}/${TEMP_PREFIX}swept`
  nodeFsModule.rmSync(doomed, { recursive: true, force: true })
  nodeFsModule.renameSync(`${dir}/journal`, doomed)
  nodeFsModule.rmSync(doomed, { recursive: true, force: true })
  return true
}

/** When a file of the journal was last written; undefined when there is no journal. */
function lastWrittenMs(dir: string): number | undefined {
  if (!nodeFsModule.existsSync(`${dir}/${HEADER_FILE}`)) return undefined
  const times = nodeFsModule.readdirSync(dir).map((name) => nodeFsModule.statSync(`${dir}/${name}`).mtimeMs)
  return Math.max(...times)
}
