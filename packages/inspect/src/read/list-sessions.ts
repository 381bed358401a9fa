import { lstatSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { fromSystemError, isNexusError, systemCode } from '@nexus/errors'
import { isSessionId, JOURNAL_HEADER_PATH, META_PATH, TIMING_PATH, ACTIVE_SEGMENT_PATH } from '@nexus/durability/names'
import { hasChain, layoutInStore, type CommitHead } from '@nexus/durability/tools'
import { forEachBounded, type ObjectStore } from '@nexus/objectstore'
import type { InspectPlaces } from './inspect-session.ts'
import { lookAtLock, type LockLook } from './lock-look.ts'
import { Scratch } from './scratch.ts'
import { readLocalMetadata, type SessionMetadata } from './session-metadata.ts'

/** A session as it lies on this disk. */
export interface LocalSession {
  readonly dir: string
  readonly lock: LockLook
  /** Milliseconds since the epoch: when anything was last written that every turn writes. */
  readonly lastUsedMs: number
  readonly metadata?: SessionMetadata
  /** Why its metadata could not be read. */
  readonly problem?: string
}

/** A session as it lies in a store. */
export interface StoredSession {
  /** How its commits lie there. Of a versioned session nothing else is told. */
  readonly layout: 'mirror' | 'versioned'
  /** Who committed last; undefined when that could not be told. */
  readonly head?: CommitHead
  /** Why not. */
  readonly problem?: string
}

/** A session that was found, in one place or in both. */
export interface ListedSession {
  readonly id: string
  readonly local?: LocalSession
  readonly stored?: StoredSession
}

const SIGNS = [META_PATH, ACTIVE_SEGMENT_PATH, JOURNAL_HEADER_PATH, TIMING_PATH]
const CONCURRENCY = 16

/**
 * The sessions on this disk and in a store, by id. A session that can't be read is listed with why.
 *
 * @throws NexusError `LOCAL_IO` or `PERMISSION` when the root can't be read; the store's own error when it can't be listed
 */
export async function listSessions(places: InspectPlaces): Promise<ListedSession[]> {
  const { sessionsRoot, store } = places
  const local = sessionsRoot === undefined ? new Map<string, LocalSession>() : localSessions(sessionsRoot)
  const stored = store === undefined ? new Map<string, StoredSession>() : await storedSessions(store, places)
  const ids = [...new Set([...local.keys(), ...stored.keys()])].toSorted()
  return ids.map((id) => {
    const [here, there] = [local.get(id), stored.get(id)]
    return { id, ...(here === undefined ? {} : { local: here }), ...(there === undefined ? {} : { stored: there }) }
  })
}

/** Directories that hold anything that every session has; a root that isn't there holds none. */
function localSessions(sessionsRoot: string): Map<string, LocalSession> {
  const found = new Map<string, LocalSession>()
  for (const id of namesIn(sessionsRoot)) {
    if (!isSessionId(id)) continue
    const dir = join(sessionsRoot, id)
    const times = SIGNS.map((path) => mtimeOf(join(dir, path))).filter((time) => time !== undefined)
    if (times.length > 0) found.set(id, localSession(dir, Math.max(...times)))
  }
  return found
}

function localSession(dir: string, lastUsedMs: number): LocalSession {
  const look = { dir, lock: lookAtLock(dir), lastUsedMs }
  try {
    const metadata = readLocalMetadata(dir)
    return metadata === undefined ? look : { ...look, metadata }
  } catch (error) {
    return { ...look, problem: reason(error) }
  }
}

/** Ids below `sessions/` that have a commit, or seem to. */
export async function storedSessionIds(store: ObjectStore, signal?: AbortSignal): Promise<string[]> {
  const names = await store.listNames('sessions', signal === undefined ? {} : { signal })
  const ids = names.filter((name) => COMMITTED.test(name)).map((name) => name.replace(COMMITTED, ''))
  return [...new Set(ids)].filter(isSessionId).toSorted()
}

/** What lies beside the tree of a session that was committed. */
const COMMITTED = /\.(?:manifest|snapshot\.json|v)$/

async function storedSessions(
  store: ObjectStore,
  { scratchDir, signal, logger }: InspectPlaces,
): Promise<Map<string, StoredSession>> {
  const found = new Map<string, StoredSession>()
  const scratch = new Scratch(scratchDir)
  try {
    await forEachBounded(
      await storedSessionIds(store, signal),
      CONCURRENCY,
      async (id, _at, laneSignal) => {
        try {
          if (await hasChain(store, id, laneSignal)) {
            found.set(id, { layout: 'versioned' })
            return
          }
          const head = await (await layoutInStore(store, id, scratch.dir, logger)).head(laneSignal)
          if (head !== undefined) found.set(id, { layout: 'mirror', head })
        } catch (error) {
          laneSignal.throwIfAborted()
          if (isNexusError(error) && error.retryable) throw error
          found.set(id, { layout: 'mirror', problem: reason(error) })
        }
      },
      signal,
    )
    return found
  } finally {
    await scratch.remove()
  }
}

function reason(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

function namesIn(dir: string): string[] {
  try {
    return readdirSync(dir)
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return []
    throw fromSystemError(error, 'inspect.list', dir)
  }
}

function mtimeOf(path: string): number | undefined {
  try {
    return lstatSync(path, { throwIfNoEntry: false })?.mtimeMs
  } catch (error) {
    if (systemCode(error) === 'ENOTDIR' || systemCode(error) === 'EACCES') return undefined
    throw fromSystemError(error, 'inspect.list', path)
  }
}
