import { randomBytes } from 'node:crypto'
import { existsSync, renameSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { fromSystemError, isNexusError, NexusError, systemCode } from '@nexus/errors'
import { acquireSessionLock, noFailpoint, syncDirectory, type Failpoint } from '@nexus/host'
import { validateSessionId } from '@nexus/durability/names'
import { removeMachineRecord, removeStagingDir } from '@nexus/durability/tools'

/** Failpoints of a removal from this disk, in the order it passes them. */
export const REMOVE_FAILPOINTS: readonly string[] = [
  'remove:locked',
  'remove:renamed',
  'remove:record-removed',
  'remove:done',
]

/**
 * Removes a session's tree from this disk, with what the machine remembers of it. It is locked meanwhile and renamed away
 * first, so that every other process finds it whole or not at all; what a kill leaves, the next retention sweep removes.
 *
 * @throws SessionLockedError (`LOCKED`) while a process has it open; NexusError `NOT_FOUND`, `INVALID_ARGUMENT`, `LOCAL_IO`
 */
export async function removeLocalSession(
  sessionsRoot: string,
  id: string,
  { failpoint = noFailpoint }: { failpoint?: Failpoint } = {},
): Promise<void> {
  validateSessionId(id)
  const root = resolve(sessionsRoot)
  const dir = join(root, id)
  if (!existsSync(dir))
    throw new NexusError('NOT_FOUND', `there is no session ${id} in ${root}`, { op: 'remove', key: id })
  const lock = await acquireSessionLock(dir, { transport: 'remove' })
  try {
    await failpoint('remove:locked')
    const doomed = join(root, `.removing-${id}-${randomBytes(8).toString('hex')}`)
    renameSync(dir, doomed)
    lock.relocate(doomed)
    await syncDirectory(root)
    await failpoint('remove:renamed')
    // The record first: while the files are there, a sweep comes back for both.
    await removeMachineRecord(root, id)
    await failpoint('remove:record-removed')
    await removeStagingDir(doomed)
    await failpoint('remove:done')
  } catch (error) {
    throw isNexusError(error) || systemCode(error) === undefined ? error : fromSystemError(error, 'remove', dir)
  } finally {
    lock.release()
  }
}
