import { randomBytes } from 'node:crypto'
import { mkdirSync, renameSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { fromSystemError, NexusError, systemCode } from '@nexus/errors'
import { atomicWriteFile, type Clock, type Failpoint, noFailpoint, syncDirectory, systemClock } from '@nexus/host'
import { newSessionMeta, serializeMeta, type SessionProfile } from './meta.ts'
import { META_PATH, SESSION_DIRECTORIES, validateSessionId } from '@nexus/durability/names'

/** How {@link createSessionTree} makes a session. */
export interface CreateSessionTreeOptions {
  profile?: SessionProfile
  /** Puts this process's lock into the tree before it appears under its name, as a hydration does. */
  prepareStaging?: (stagingDir: string) => void | Promise<void>
  /** Default true. */
  fsync?: boolean
  clock?: Pick<Clock, 'now'>
  failpoint?: Failpoint
}

/** Failpoints of {@link createSessionTree}, besides those of an atomic write. */
export const CREATE_TREE_FAILPOINTS: readonly string[] = ['create-tree:staged', 'create-tree:renamed']

const DIRECTORY_MODE = 0o700

/**
 * Makes an empty, valid session at `<root>/<id>`: directories 0700, `metadata/session.json` 0600, both less the umask.
 * New local sessions and those a store has never seen are made here alike.
 *
 * The tree is put together beside its place and renamed into it: it appears whole, locked already, or not at all. A
 * process that dies in between leaves a `.hydrating-<id>-*` directory, which the sweep of such directories removes.
 *
 * @returns the absolute directory
 * @throws NexusError `INVALID_ARGUMENT` for a bad id, `PRECONDITION` when there is a tree already, `PERMISSION`, `LOCAL_IO`
 * @see docs/formats/session-tree.md
 */
export async function createSessionTree(
  root: string,
  id: string,
  options: CreateSessionTreeOptions = {},
): Promise<string> {
  const { profile = {}, fsync = true, clock = systemClock, failpoint = noFailpoint } = options
  const dir = join(resolve(root), validateSessionId(id))
  const staging = join(resolve(root), `.hydrating-${id}-${randomBytes(8).toString('hex')}`)
  try {
    mkdirSync(root, { recursive: true, mode: DIRECTORY_MODE })
    mkdirSync(staging, DIRECTORY_MODE)
    for (const name of SESSION_DIRECTORIES) mkdirSync(join(staging, name), DIRECTORY_MODE)
    const meta = serializeMeta(newSessionMeta(id, clock.now(), profile))
    await atomicWriteFile(join(staging, META_PATH), meta, { fsync })
    await options.prepareStaging?.(staging)
    await failpoint('create-tree:staged')
    if (fsync) await syncDirectory(staging)
    // Onto an empty directory this succeeds, onto anything else it fails: never two trees in one.
    renameSync(staging, dir)
    await failpoint('create-tree:renamed')
    if (fsync) await syncDirectory(resolve(root))
    return dir
  } catch (error) {
    await rm(staging, { recursive: true, force: true }).catch(() => undefined)
    if (['ENOTEMPTY', 'EEXIST', 'ENOTDIR'].includes(systemCode(error) ?? '')) {
      throw new NexusError('PRECONDITION', `${dir} exists already: resume the session, or choose another id`, {
        op: 'session.create',
        key: id,
        cause: error,
      })
    }
    throw error instanceof NexusError || systemCode(error) === undefined
      ? error
      : fromSystemError(error, 'session.create', dir)
  }
}
