import { isNexusError, NexusError } from '@nexus/errors'
import { trimKeyPrefix, type ObjectInfo, type ObjectStore } from '@nexus/objectstore'
import type { Logger } from '@nexus/host'
import type { OnMixedPolicy } from '../../layout/layout.ts'
import type { Mixture } from '../../layout/staged-tree.ts'
import type { SessionKeys } from '../../tree/keys.ts'
import { blobDigest, CONVERSATION_PATH, isPluginDatabase } from '../../tree/names.ts'
import type { Manifest } from '../manifest/manifest.ts'
import type { Fetched } from './fetch.ts'

const OP = 'hydrate'
const REASON = 'objects hold other bytes than were committed, as an interrupted snapshot leaves them'

export interface JudgeOptions {
  store: ObjectStore
  keys: SessionKeys
  onMixed: OnMixedPolicy
  logger: Logger
  signal?: AbortSignal | undefined
}

/** Whether every object is as it was committed. */
export function isWhole({ missing, differing }: Fetched): boolean {
  return missing.length === 0 && differing.size === 0
}

/**
 * What objects that are not as they were committed mean. A missing one, a blob that doesn't hold what its name says, one
 * that did not arrive whole, and one that was last stored before the commit end the hydration: no interrupted commit
 * explains them. What was stored after the commit is a mixture of two generations, the limit of a layout that overwrites in
 * place; a store without times leaves no other reading.
 *
 * @returns the mixture, or undefined when everything is as committed
 * @throws `CORRUPT` naming the path, also for a mixture where `onMixed` says so; `UNAVAILABLE` for short deliveries
 * @see docs/concepts/durability.md
 */
export async function judgeFetched(
  manifest: Manifest,
  { missing, differing }: Fetched,
  options: JudgeOptions,
): Promise<Mixture | undefined> {
  const { keys, onMixed, logger } = options
  const { generation } = manifest
  const [lost] = missing.toSorted()
  if (lost !== undefined) {
    const others = missing.length === 1 ? '' : ` and ${missing.length - 1} more`
    throw corrupt(`the store has lost ${keys.tree}/${lost}${others}, named by generation ${generation}`, lost)
  }
  const paths = [...differing.keys()].toSorted()
  const [first] = paths
  if (first === undefined) return undefined
  const stored = await askTheStore(options)
  refuseShort(differing, stored, options)
  const broken = paths.find((path) => blobDigest(path) !== undefined)
  if (broken !== undefined) throw corrupt(`the blob ${keys.tree}/${broken} does not hold what its name says`, broken)
  refuseDamaged(paths, generation, stored, options)
  if (onMixed === 'fail' || (onMixed === 'auto' && paths.some(isIrreplaceable))) {
    throw corrupt(
      `generation ${generation} can't be restored: ${REASON}: ${paths.join(', ')}. ` +
        'core.object_store.on_mixed: warn resumes with what there is',
      paths.find(isIrreplaceable) ?? first,
    )
  }
  logger.warn({ session_id: manifest.session_id, generation, paths }, REASON)
  return { generation, reason: REASON, paths }
}

/** A half of one of these is worth less than nothing: it looks whole. */
function isIrreplaceable(path: string): boolean {
  return path === CONVERSATION_PATH || isPluginDatabase(path)
}

interface Stored {
  objects: ReadonlyMap<string | undefined, ObjectInfo>
  /** When the manifest was put, in milliseconds. */
  committedAtMs: number | undefined
}

/** Sizes and times as the store has them; nothing where it can't be listed. */
async function askTheStore({ store, keys, logger, signal }: JudgeOptions): Promise<Stored> {
  try {
    const objects = await store.list(keys.tree, { signal })
    const [manifest] = await store.list(keys.manifestPrefix, { signal })
    return {
      objects: new Map(objects.map((object) => [trimKeyPrefix(object.key, keys.tree), object])),
      committedAtMs: manifest?.modTime?.getTime(),
    }
  } catch (error) {
    signal?.throwIfAborted()
    if (isNexusError(error) && error.retryable) throw error
    logger.warn({ err: error }, 'the store can not be listed: when objects that differ were stored is not known')
    return { objects: new Map(), committedAtMs: undefined }
  }
}

/** An object of another size than the store says was not overwritten: it did not arrive. */
function refuseShort(differing: ReadonlyMap<string, number>, { objects }: Stored, { store, keys }: JudgeOptions): void {
  // Without `get` the driver's hydrate has compared the sizes.
  if (!store.capabilities.get) return
  for (const [path, size] of differing) {
    const listed = objects.get(path)?.size
    if (listed === undefined || listed === size) continue
    const message = `${keys.tree}/${path} has ${listed} bytes in the store, and twice only ${size} arrived`
    throw new NexusError('UNAVAILABLE', message, { op: OP, key: path })
  }
}

/**
 * The objects of a commit are put before its manifest. One that differs and is not newer than the manifest was changed by
 * something else than a commit: flipped, cut, or restored from elsewhere. Times of one second are equal within it.
 */
function refuseDamaged(
  paths: readonly string[],
  generation: number,
  { objects, committedAtMs }: Stored,
  { keys }: JudgeOptions,
): void {
  if (committedAtMs === undefined) return
  for (const path of paths) {
    const storedAtMs = objects.get(path)?.modTime?.getTime()
    if (storedAtMs === undefined || storedAtMs >= committedAtMs) continue
    throw corrupt(
      `${keys.tree}/${path} holds other bytes than generation ${generation} committed, and was not stored since: it is damaged`,
      path,
    )
  }
}

/** The store holds something that can't have been committed so. */
export function corrupt(message: string, key: string): NexusError {
  return new NexusError('CORRUPT', message, { op: OP, key })
}
