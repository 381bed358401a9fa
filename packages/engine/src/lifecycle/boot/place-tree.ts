import { existsSync } from 'node:fs'
import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { fromSystemError, isNexusError } from '@nexus/errors'
import { readOpenTurn, type OpenTurn } from '@nexus/journal'
import type { SessionDurability } from '@nexus/durability'
import { createSessionTree } from '../../session/create-tree.ts'
import {
  acquireSessionLock,
  adoptSessionLock,
  type Logger,
  type SessionLock,
  type SessionLockOptions,
  writeLockFile,
} from '@nexus/host'
import type { SessionProfile } from '../../session/meta.ts'

/** Where the session's tree is now, and that it is ours. */
export interface PlacedTree {
  dir: string
  lock: SessionLock
  /** False for a tree that this boot created. */
  resumed: boolean
  /** How the journal of the tree ended that was given up for the last commit. */
  openTurn?: OpenTurn | undefined
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
  /** A tree whose last run ended within a turn is given up for the last commit, where there is one. */
  returnToCommit: boolean
  logger: Logger
}

/**
 * Finds, hydrates or creates the tree of a session, and takes its lock.
 *
 * The order matters: an existing tree is locked before anything is decided about it, since the decision may rename it; a
 * tree that is hydrated or created arrives with our lock inside, so that no other process can slip in between.
 *
 * @throws SessionLockedError, StaleLocalTreeError, and whatever a failed hydration says; nothing is held then
 * @see docs/concepts/session.md
 */
export async function placeTree(request: PlaceTreeRequest): Promise<PlacedTree> {
  await makeRoot(request.sessionsRoot)
  const dir = join(request.sessionsRoot, request.sessionId)
  const found = request.resume ? await resumeTree(request, dir) : await beginFresh(request)
  if (found !== undefined) return { dir, resumed: true, ...found }
  let lock: SessionLock
  try {
    lock = await createTree(request, dir)
  } catch (error) {
    // Another process created the same session since we looked: its lock tells who.
    if (request.resume && isNexusError(error, 'PRECONDITION')) {
      return { dir, lock: await acquireSessionLock(dir, request.lock), resumed: true }
    }
    throw error
  }
  return (await claimCreated(request, dir, lock))
    ? { dir, lock, resumed: false }
    : await placeTree({ ...request, resume: true })
}

/** Whether a tree that was created just now is the session: another host may have created it at the same moment. */
async function claimCreated({ durability }: PlaceTreeRequest, dir: string, lock: SessionLock): Promise<boolean> {
  try {
    if ((await durability?.claimNew()) !== 'lost') return true
  } catch (error) {
    await rm(dir, { recursive: true, force: true })
    lock.release()
    throw error
  }
  await rm(dir, { recursive: true, force: true })
  lock.release()
  return false
}

async function makeRoot(path: string): Promise<void> {
  try {
    await mkdir(path, { recursive: true, mode: 0o700 })
  } catch (error) {
    throw fromSystemError(error, 'session.open', path)
  }
}

/** The tree that the session goes on with; undefined when there is none anywhere. */
async function resumeTree(
  { durability, lock: lockOptions, returnToCommit, logger, sessionId }: PlaceTreeRequest,
  dir: string,
): Promise<Pick<PlacedTree, 'lock' | 'openTurn'> | undefined> {
  const local = existsSync(dir) ? await acquireSessionLock(dir, lockOptions) : undefined
  if (durability === undefined) return local && { lock: local }
  try {
    const ended = local && returnToCommit ? await readOpenTurn(join(dir, 'journal')) : undefined
    const openTurn = ended?.isPartialTurn === true || ended?.partialInput !== undefined ? ended : undefined
    const { tree, keptAt } = await durability.resolveTree({
      localExists: local !== undefined,
      prepareStaging: async (staging) => writeLockFile(staging, lockOptions),
      giveUpLocal: openTurn !== undefined,
    })
    if (keptAt !== undefined && local !== undefined) {
      local.relocate(keptAt)
      local.release()
    }
    if (tree === 'absent') return undefined
    if (tree === 'hydrated') {
      return { lock: await adoptSessionLock(dir), openTurn }
    }
    if (openTurn !== undefined) {
      logger.warn(
        { session_id: sessionId },
        'no commit holds every completed turn of the local tree: going on with that',
      )
    }
    return local && { lock: local }
  } catch (error) {
    local?.release()
    throw error
  }
}

/** A session that was named just now is nowhere yet; what this machine remembers of the run begins empty. */
async function beginFresh({ durability }: PlaceTreeRequest): Promise<undefined> {
  await durability?.resolveTree({ fresh: true, localExists: false, prepareStaging: async () => undefined })
}

async function createTree(request: PlaceTreeRequest, dir: string): Promise<SessionLock> {
  await createSessionTree(request.sessionsRoot, request.sessionId, {
    profile: request.profile,
    fsync: request.fsync,
    ...(request.lock.clock === undefined ? {} : { clock: request.lock.clock }),
    prepareStaging: (staging) => writeLockFile(staging, request.lock),
  })
  return await adoptSessionLock(dir)
}
