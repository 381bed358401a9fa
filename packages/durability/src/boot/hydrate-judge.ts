import { NexusError } from '@nexus/errors'
import { trimKeyPrefix, type ObjectStore } from '@nexus/objectstore'
import type { Logger } from '@nexus/host'
import type { Fetched } from './hydrate-fetch.ts'
import type { HydrateOptions, Mixture } from './hydrate.ts'
import type { Manifest } from '../mirror/manifest.ts'
import { blobDigest } from '../tree/names.ts'

const OP = 'hydrate'
const REASON = 'objects hold other bytes than were committed, as an interrupted snapshot leaves them'

/** What `auto` refuses to restore mixed: a database or a conversation of two generations is worse than none. */
const WHOLE_ONLY = /^plugins\/.+\/store\.db$|^context\/conversation\.jsonl$/

export interface JudgeOptions extends Pick<HydrateOptions, 'onMixed'> {
  store: ObjectStore
  /** Key prefix of the tree. */
  treeKey: string
  logger: Logger
  signal?: AbortSignal
}

/** Whether every object is as it was committed. */
export function isWhole({ missing, differing }: Fetched): boolean {
  return missing.length === 0 && differing.size === 0
}

/**
 * What objects that are not as they were committed mean. A missing one, a blob that doesn't hold what its name says, and
 * one that did not arrive whole end the hydration. Anything else is a mixture of two generations, the limit of a layout
 * that overwrites in place.
 *
 * @returns the mixture, or undefined when everything is as committed
 * @throws `CORRUPT` naming the path, also for a mixture where `onMixed` says so; `UNAVAILABLE` for short deliveries
 * @see spec 60, Hydration
 */
export async function judgeFetched(
  manifest: Manifest,
  { missing, differing }: Fetched,
  options: JudgeOptions,
): Promise<Mixture | undefined> {
  const { treeKey, onMixed, logger } = options
  const { generation } = manifest
  const [lost] = missing.toSorted()
  if (lost !== undefined) {
    const others = missing.length === 1 ? '' : ` and ${missing.length - 1} more`
    throw corrupt(`the store has lost ${treeKey}/${lost}${others}, named by generation ${generation}`, lost)
  }
  const paths = [...differing.keys()].toSorted()
  const [first] = paths
  if (first === undefined) return undefined
  await refuseShort(differing, options)
  const broken = paths.find((path) => blobDigest(path) !== undefined)
  if (broken !== undefined) throw corrupt(`the blob ${treeKey}/${broken} does not hold what its name says`, broken)
  if (onMixed === 'fail' || (onMixed === 'auto' && paths.some((path) => WHOLE_ONLY.test(path)))) {
    throw corrupt(`generation ${generation} can't be restored: ${REASON}: ${paths.join(', ')}`, first)
  }
  logger.warn({ session_id: manifest.session_id, generation, paths }, REASON)
  return { generation, reason: REASON, paths }
}

/** An object of another size than the store says was not overwritten: it did not arrive. */
async function refuseShort(differing: ReadonlyMap<string, number>, options: JudgeOptions): Promise<void> {
  const { store, treeKey, logger, signal } = options
  // Without `get` the driver's hydrate has compared the sizes.
  if (!store.capabilities.get) return
  let sizes: Map<string | undefined, number>
  try {
    const objects = await store.list(treeKey, signal === undefined ? {} : { signal })
    sizes = new Map(objects.map(({ key, size }) => [trimKeyPrefix(key, treeKey), size]))
  } catch (error) {
    signal?.throwIfAborted()
    logger.warn({ err: error }, 'the store can not be listed: sizes of objects that differ were not compared')
    return
  }
  for (const [path, size] of differing) {
    const listed = sizes.get(path)
    if (listed === undefined || listed === size) continue
    const message = `${treeKey}/${path} has ${listed} bytes in the store, and twice only ${size} arrived`
    throw new NexusError('UNAVAILABLE', message, { op: OP, key: path })
  }
}

/** The store holds something that can't have been committed so. */
export function corrupt(message: string, key: string): NexusError {
  return new NexusError('CORRUPT', message, { op: OP, key })
}
