import { randomBytes } from 'node:crypto'
import { chmodSync, lstatSync, mkdirSync, readdirSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { fromSystemError, isNexusError, systemCode } from '@nexus/errors'
import { isSessionId } from './session-id.ts'

/** What a staging directory is for. */
export type StagingKind = 'hydrating' | 'snapshot'

/** A staging directory found beside the sessions. */
export interface StagingDir {
  path: string
  kind: StagingKind
  sessionId: string
  /** When it was made or last had something put into it, in milliseconds. */
  changedAtMs: number
}

const NAME = /^\.(hydrating|snapshot)-(.+)-[0-9a-f]{16}$/
const OWNER_ONLY = 0o700

/**
 * Makes a staging directory beside the session: on the same file system, so that a rename is all it takes to move things,
 * and with a name that no session id can have.
 */
export function createStagingDir(sessionsRoot: string, kind: StagingKind, sessionId: string): string {
  const path = join(sessionsRoot, `.${kind}-${sessionId}-${randomBytes(8).toString('hex')}`)
  try {
    mkdirSync(sessionsRoot, { recursive: true, mode: OWNER_ONLY })
    mkdirSync(path, { mode: OWNER_ONLY })
  } catch (error) {
    throw fromSystemError(error, `${kind}.stage`, path)
  }
  return path
}

/** Wraps a failed call to the local file system once, naming the path it was about; anything else passes as it is. */
export function fromLocalFailure(error: unknown, op: string): unknown {
  if (systemCode(error) === undefined || isNexusError(error)) return error
  const { path, syscall } = error as NodeJS.ErrnoException
  return syscall === undefined ? error : fromSystemError(error, op, path ?? syscall)
}

/** Removes a tree of ours, also one with directories that don't let their owner write. A missing one is fine. */
export async function removeStagingDir(path: string): Promise<void> {
  try {
    await rm(path, { recursive: true, force: true })
  } catch (error) {
    const code = systemCode(error)
    if (code !== 'EACCES' && code !== 'EPERM') throw error
    openDirectories(path)
    await rm(path, { recursive: true, force: true })
  }
}

function openDirectories(path: string): void {
  if (lstatSync(path, { throwIfNoEntry: false })?.isDirectory() !== true) return
  chmodSync(path, OWNER_ONLY)
  for (const entry of readdirSync(path, { withFileTypes: true })) {
    if (entry.isDirectory()) openDirectories(join(path, entry.name))
  }
}

/**
 * Removes what killed snapshots and hydrations left under `sessionsRoot`.
 *
 * @param isAlive tells whether a live process may still be using it; then it is left alone. A directory younger than the
 *   few milliseconds its maker needs to put a lock into it is best called alive
 * @returns the removed paths
 */
export async function sweepStaging(
  sessionsRoot: string,
  isAlive: (staging: StagingDir) => boolean | Promise<boolean>,
): Promise<string[]> {
  const removed: string[] = []
  for (const staging of findStagingDirs(sessionsRoot)) {
    if (await isAlive(staging)) continue
    await removeStagingDir(staging.path)
    removed.push(staging.path)
  }
  return removed
}

function findStagingDirs(sessionsRoot: string): StagingDir[] {
  const found: StagingDir[] = []
  for (const name of namesIn(sessionsRoot, 'staging.sweep')) {
    const [, kind, sessionId] = NAME.exec(name) ?? []
    if (kind === undefined || !isSessionId(sessionId)) continue
    const path = join(sessionsRoot, name)
    const stats = lstatSync(path, { throwIfNoEntry: false })
    if (stats?.isDirectory() !== true) continue
    found.push({ path, kind: kind as StagingKind, sessionId, changedAtMs: stats.mtimeMs })
  }
  return found
}

/** The names in a directory; none when there is no such directory. Throws `LOCAL_IO` or `PERMISSION` when it can't be read. */
export function namesIn(dir: string, op: string): string[] {
  try {
    return readdirSync(dir)
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return []
    throw fromSystemError(error, op, dir)
  }
}
