import { existsSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { fromSystemError, isNexusError } from '@nexus/errors'
import type { SessionDurability } from '@nexus/durability'
import { createSessionTree } from '../session/create-tree.ts'
import {
  acquireSessionLock,
  adoptSessionLock,
  type SessionLock,
  type SessionLockOptions,
  writeLockFile,
} from '@nexus/host'
import type { SessionProfile } from '../session/meta.ts'

/** Where the session's tree is now, and that it is ours. */
export interface PlacedTree {
  dir: string
  lock: SessionLock
  /** False for a tree that this boot created. */
  resumed: boolean
}

/** What a boot knows before there is a tree. */
export interface PlaceTreeRequest {
  sessionId: string
  sessionsRoot: string
  /** Whether an existing session is asked for; a new one must not exist. */
  resume: boolean
  /** What a created tree's metadata say. */
  profile: SessionProfile
  fsync: boolean
  durability: SessionDurability | undefined
  lock: SessionLockOptions
  /** Called with every lock that is taken, so that a later failure releases it. */
  onLock: (lock: SessionLock) => void
}

/**
 * Finds, hydrates or creates the tree of a session, and takes its lock.
 *
 * The order matters: an existing tree is locked before anything is decided about it, since the decision may rename it; a
 * tree that is hydrated or created arrives with our lock inside, so that no other process can slip in between.
 *
 * @throws SessionLockedError, StaleLocalTreeError, and whatever a failed hydration says
 * @see docs/concepts/durability.md
 */
export async function placeTree(request: PlaceTreeRequest): Promise<PlacedTree> {
  await makeRoot(request.sessionsRoot)
  const dir = join(request.sessionsRoot, request.sessionId)
  const resumed = request.resume ? await resumeTree(request, dir) : await beginFresh(request)
  if (resumed !== undefined) return { dir, lock: resumed, resumed: true }
  try {
    return { dir, lock: await createTree(request, dir), resumed: false }
  } catch (error) {
    // Another process created the same session since we looked: its lock tells who.
    if (request.resume && isNexusError(error, 'PRECONDITION')) {
      return { dir, lock: await lockTree(request, dir), resumed: true }
    }
    throw error
  }
}

async function makeRoot(path: string): Promise<void> {
  try {
    await mkdir(path, { recursive: true, mode: 0o700 })
  } catch (error) {
    throw fromSystemError(error, 'session.open', path)
  }
}

/** The lock of the tree that the session goes on with; undefined when there is none anywhere. */
async function resumeTree(request: PlaceTreeRequest, dir: string): Promise<SessionLock | undefined> {
  const { durability } = request
  const local = existsSync(dir) ? await lockTree(request, dir) : undefined
  if (durability === undefined) return local
  const { tree, keptAt } = await durability.resolveTree({
    localExists: local !== undefined,
    prepareStaging: async (staging) => writeLockFile(staging, request.lock),
  })
  if (keptAt !== undefined && local !== undefined) {
    local.relocate(keptAt)
    local.release()
  }
  if (tree === 'absent') return undefined
  return tree === 'local' ? local : await adopt(request, dir)
}

/** A session that was named just now is nowhere yet; what this machine remembers of the run begins empty. */
async function beginFresh(request: PlaceTreeRequest): Promise<undefined> {
  await request.durability?.resolveTree({ fresh: true, localExists: false, prepareStaging: async () => undefined })
}

async function createTree(request: PlaceTreeRequest, dir: string): Promise<SessionLock> {
  await createSessionTree(request.sessionsRoot, request.sessionId, {
    profile: request.profile,
    fsync: request.fsync,
    ...(request.lock.clock === undefined ? {} : { clock: request.lock.clock }),
    prepareStaging: (staging) => writeLockFile(staging, request.lock),
  })
  return await adopt(request, dir)
}

async function lockTree(request: PlaceTreeRequest, dir: string): Promise<SessionLock> {
  const lock = await acquireSessionLock(dir, request.lock)
  request.onLock(lock)
  return lock
}

async function adopt(request: PlaceTreeRequest, dir: string): Promise<SessionLock> {
  const lock = await adoptSessionLock(dir)
  request.onLock(lock)
  return lock
}
