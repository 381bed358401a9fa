import { existsSync } from 'node:fs'
import { chmod, link, mkdir, rename, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { NexusError, systemCode } from '@nexus/errors'
import { forEachBounded, type ObjectInfo, type ObjectStore } from '@nexus/objectstore'
import { openStorageManager, removeSidecars, replaceContent, validatePluginId } from '@nexus/storage'
import { type Clock, type Failpoint, type Logger, sha256OfFile, syncDirectory, syncFile } from '@nexus/host'
import { isAsSeen, seenObject, type SharedRootsRecord } from './shared-roots-record.ts'
import { withSharedStaging } from './shared-roots-staging.ts'
import { APP_ROOT, STORE_FILE } from './shared-store-key.ts'
import { withSharedStoreLock } from './shared-store-lock.ts'

/** What a pull works with. */
export interface SharedPull {
  store: ObjectStore
  storageRoot: string
  record: SharedRootsRecord
  clock: Clock
  logger: Logger
  failpoint: Failpoint
  lockMs: number
}

const CONCURRENCY = 4

/** What file systems without hard links answer. */
const LINKLESS: ReadonlySet<string> = new Set(['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EMLINK'])

/** Failpoints of a pull. */
export const SHARED_PULL_FAILPOINTS: readonly string[] = ['shared-pull:fetched', 'shared-pull:published']

/** What a pull found in the object store. */
export interface PulledRoot {
  /** Keys of all stores below the root. */
  held: string[]
  /** Those that another host changed, and this machine too, since they were the same. */
  forked: string[]
}

/**
 * Brings every store of one root that doesn't exist locally, and what another host has changed of one that this machine has
 * not. One that is missing appears whole, by a link that fails when one is there already; one that exists gets the new
 * content through SQLite, since other processes may have it open. What both changed is left as it is on either side.
 */
export async function pullRoot(pull: SharedPull, root: string, signal: AbortSignal | undefined): Promise<PulledRoot> {
  const listed = await pull.store.list(root, { signal })
  const stores = listed.filter(({ key }) => isStoreKey(key, root, pull.logger))
  const forked: string[] = []
  const settle = async (object: ObjectInfo, _index: number, each: AbortSignal): Promise<void> => {
    if (!existsSync(join(pull.storageRoot, object.key))) return pullStore(pull, object, each)
    if ((await followStore(pull, object, each)) === 'forked') forked.push(object.key)
  }
  await forEachBounded(stores, CONCURRENCY, settle, signal)
  return { held: stores.map(({ key }) => key), forked }
}

/** Downloads one shared store's object, its size checked. */
async function fetchSharedStore(
  pull: SharedPull,
  object: ObjectInfo,
  path: string,
  signal: AbortSignal,
): Promise<void> {
  const { key, size: bytes } = object
  await pull.store.get(key, path, { signal, expected: { bytes } })
  const { size } = await stat(path)
  if (size === bytes) return
  throw new NexusError('CORRUPT', `object ${key} has ${bytes} bytes and ${size} of them arrived`, {
    op: 'durability.shared-hydrate',
    key,
    retryable: true,
  })
}

async function pullStore(pull: SharedPull, object: ObjectInfo, signal: AbortSignal): Promise<void> {
  const { key, size } = object
  const { storageRoot, record, logger, failpoint } = pull
  const livePath = join(storageRoot, key)
  await withSharedStoreLock(record.lockDir(key), { ...pull, signal }, () =>
    withSharedStaging(storageRoot, async (staging) => {
      if (existsSync(livePath)) return
      const fetched = join(staging, STORE_FILE)
      await fetchSharedStore(pull, object, fetched, signal)
      const sha256 = await sha256OfFile(fetched)
      await chmod(fetched, 0o600)
      await syncFile(fetched)
      await failpoint('shared-pull:fetched')
      // Before it appears: a crash in between leaves a record without a file, and the next boot pulls it again.
      await record.noteObject(key, { sha256, attempts: [], seen: seenObject(object) })
      await mkdir(dirname(livePath), { recursive: true, mode: 0o700 })
      // Those of a database that is gone would be taken for this one's own.
      if (!existsSync(livePath)) removeSidecars(livePath)
      if (!(await publish(fetched, livePath))) {
        // What is there now has other roots: it may not be stored over the object.
        await record.forgetObject(key)
        logger.debug({ key }, 'a shared store was opened by another process while it was being restored')
        return
      }
      await syncDirectory(dirname(livePath))
      await failpoint('shared-pull:published')
      logger.info({ key, bytes: size }, 'restored a shared store')
    }),
  )
}

/**
 * Looks whether another host stored the object since this machine had it, and takes that over where the local database is as
 * it was then. Asks for the bytes only when the listing says that there are others.
 *
 * @returns `forked` when both changed
 */
async function followStore(pull: SharedPull, object: ObjectInfo, signal: AbortSignal): Promise<'same' | 'forked'> {
  const { storageRoot, record, logger } = pull
  const { key, size } = object
  return await withSharedStoreLock(record.lockDir(key), { ...pull, signal }, async () => {
    const known = record.object(key)
    if (known?.sha256 !== undefined && isAsSeen(known.seen, object)) return 'same'
    return await withSharedStaging(storageRoot, async (staging) => {
      const fetched = join(staging, STORE_FILE)
      await fetchSharedStore(pull, object, fetched, signal)
      const sha256 = await sha256OfFile(fetched)
      const note = (): Promise<void> => record.noteObject(key, { sha256, attempts: [], seen: seenObject(object) })
      const isOurs = known !== undefined && (known.sha256 === sha256 || known.attempts.includes(sha256))
      const local = isOurs ? sha256 : await localDigest(storageRoot, key, staging)
      if (local === sha256) await note()
      else if (known?.sha256 !== undefined && local === known.sha256) {
        await replaceContent(fetched, join(storageRoot, key))
        await note()
        logger.info({ key, bytes: size }, 'took over what another host changed in a shared store')
        // One of unknown descent is left alone as well: whether it may be stored is asked when it changes.
      } else if (known?.sha256 !== undefined) return 'forked'
      return 'same'
    })
  })
}

/** The digest of the local database as it would be stored: of a copy, since its own file changes with every checkpoint. */
async function localDigest(storageRoot: string, key: string, staging: string): Promise<string | undefined> {
  const segments = key.split('/')
  const [agentId, pluginId] =
    segments[0] === APP_ROOT ? [undefined, segments.slice(1, -1)] : [segments[1], segments.slice(3, -1)]
  const storage = openStorageManager({ sessionDir: staging, storageRoot, agentId })
  try {
    storage.open(agentId === undefined ? 'app' : 'agent', pluginId.join('/'))
    const [copy] = await storage.snapshot(agentId === undefined ? 'app' : 'agent', join(staging, 'local'))
    return copy === undefined ? undefined : await sha256OfFile(copy.snapshotPath)
  } finally {
    await storage.dispose()
  }
}

/** Only databases of plugins are carried; whatever else lies below the root in the bucket is left there. */
function isStoreKey(key: string, root: string, logger: Logger): boolean {
  const below = key.slice(root.length + 1).split('/')
  if (below.length < 2 || below.at(-1) !== STORE_FILE) return false
  try {
    validatePluginId(below.slice(0, -1).join('/'))
    return true
  } catch (error) {
    logger.warn({ err: error, key }, 'an object below a shared root is not named like a plugin; ignoring it')
    return false
  }
}

/** Gives the file its name unless something is there already; then false. */
async function publish(path: string, livePath: string): Promise<boolean> {
  try {
    await link(path, livePath)
    return true
  } catch (error) {
    const code = systemCode(error)
    if (code === 'EEXIST') return false
    if (code === undefined || !LINKLESS.has(code)) throw error
  }
  // Without links only our own processes are held off, by the lock that the caller holds.
  if (existsSync(livePath)) return false
  await rename(path, livePath)
  return true
}
