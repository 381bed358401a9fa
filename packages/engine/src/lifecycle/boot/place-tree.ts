import { existsSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
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
  /** A session that was removed from the store begins anew. */
  beginAgain: boolean
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
 * @throws SessionLockedError, SessionOwnedError, StaleLocalTreeError, `NOT_FOUND` for a session that was removed from the store,
 *   and whatever a failed hydration says; nothing is held then
 * @see docs/concepts/session.md
 */
export async function placeTree(request: PlaceTreeRequest): Promise<PlacedTree> {
  await makeRoot(request.sessionsRoot)
  const dir = join(request.sessionsRoot, request.sessionId)
  const local = request.resume && existsSync(dir) ? await acquireSessionLock(dir, request.lock) : undefined
  try {
    return { dir, ...(await settleTree(request, dir, local)) }
  } catch (error) {
    local?.release()
    await releaseStaged(dir)
    // Another process created the same session since we looked: its lock tells who.
    if (error instanceof CreatedMeanwhileError && request.resume) return await placeTree(request)
    throw error instanceof CreatedMeanwhileError ? error.cause : error
  }
}

/** A tree that was put there before the boot failed came with our lock in it. */
async function releaseStaged(dir: string): Promise<void> {
  try {
    ;(await adoptSessionLock(dir)).release()
  } catch (error) {
    // The usual case: nothing was put there, or the tree that was there is free again.
    if (!isNexusError(error, 'PRECONDITION')) throw error
  }
}

/** Settled by the store, where there is one. */
async function settleTree(
  request: PlaceTreeRequest,
  dir: string,
  local: SessionLock | undefined,
): Promise<Omit<PlacedTree, 'dir'>> {
  const { durability, lock: lockOptions, returnToCommit, resume, beginAgain, logger, sessionId } = request
  if (durability === undefined) {
    if (local !== undefined) return { lock: local, resumed: true }
    await createTree(request)
    return { lock: await adoptSessionLock(dir), resumed: false }
  }
  const ended = local && returnToCommit ? await readOpenTurn(join(dir, 'journal')) : undefined
  const openTurn = ended?.isPartialTurn === true || ended?.partialInput !== undefined ? ended : undefined
  const { tree, keptAt } = await durability.resolveTree({
    localExists: local !== undefined,
    prepareStaging: async (staging) => writeLockFile(staging, lockOptions),
    giveUpLocal: openTurn !== undefined,
    // What was named just now is nowhere yet.
    fresh: !resume,
    beginAgain,
    createTree: () => createTree(request),
  })
  if (keptAt !== undefined && local !== undefined) {
    local.relocate(keptAt)
    local.release()
  }
  if (tree === 'local' && local !== undefined) {
    if (openTurn !== undefined) {
      const about = { session_id: sessionId }
      logger.warn(about, 'no commit holds every completed turn of the local tree: going on with that')
    }
    return { lock: local, resumed: true, openTurn: undefined }
  }
  const lock = await adoptSessionLock(dir)
  return tree === 'created' ? { lock, resumed: false } : { lock, resumed: true, openTurn }
}

async function makeRoot(path: string): Promise<void> {
  try {
    await mkdir(path, { recursive: true, mode: 0o700 })
  } catch (error) {
    throw fromSystemError(error, 'session.open', path)
  }
}

/** The tree was created by another process since this one looked for it. */
class CreatedMeanwhileError extends Error {}

async function createTree(request: PlaceTreeRequest): Promise<void> {
  try {
    await createSessionTree(request.sessionsRoot, request.sessionId, {
      profile: request.profile,
      fsync: request.fsync,
      ...(request.lock.clock === undefined ? {} : { clock: request.lock.clock }),
      prepareStaging: (staging) => writeLockFile(staging, request.lock),
    })
  } catch (error) {
    throw isNexusError(error, 'PRECONDITION') ? new CreatedMeanwhileError('', { cause: error }) : error
  }
}
