import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { isNexusError } from '@nexus/errors'
import { acquireSessionLock } from '@nexus/host'
import type { Context } from './context.ts'

/**
 * Holds the lock of a session on this machine, where it is here, for as long as something is done to it in the store.
 *
 * @param force go on although a live process holds it
 * @throws SessionLockedError (`LOCKED`)
 */
export async function withSessionLock<T>(
  context: Context,
  id: string,
  { force, what }: { force: boolean; what: string },
  act: () => Promise<T>,
): Promise<T> {
  const dir = join((await context.places()).sessionsRoot, id)
  if (!existsSync(dir)) return await act()
  const lock = await acquireSessionLock(dir, { transport: what }).catch((error: unknown) => {
    if (force && isNexusError(error, 'LOCKED')) return undefined
    throw error
  })
  try {
    return await act()
  } finally {
    lock?.release()
  }
}
