import { createHash, randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { isNexusError, NexusError } from '@nexus/errors'
import { atomicWriteFile, engineTempName, type Fence, type Logger } from '@nexus/host'
import type { ObjectStore } from '@nexus/objectstore'
import type { EventOutbox } from '../events/outbox.ts'
import type { FailurePolicy } from '../events/table.ts'
import { readObject, writeObject } from '../tree/small-object.ts'

/** What {@link probeStore} works with. */
export interface StoreProbe {
  store: ObjectStore
  storeId: string
  sessionsRoot: string
  policy: FailurePolicy
  outbox: EventOutbox
  logger: Logger
  fence: Fence
}

/** How long a store may take. A slow one is no wrong one, and is looked at again by the next boot. */
const LIMIT_MS = 10_000

/** The file that remembers, beside the sessions, that this machine has tried a store. */
export function probedPath(sessionsRoot: string, storeId: string): string {
  const name = createHash('sha256').update(storeId).digest('hex').slice(0, 16)
  return join(sessionsRoot, '.machine', 'probed', `${name}.json`)
}

/**
 * Puts an object of random bytes, reads it back and deletes it, once for each store and machine: a driver that tells refusals as
 * misses, and a store that forgets, make a session that is there look like one that never was. A store that does not answer is
 * not judged.
 *
 * @throws what the store refused, or `PRECONDITION` when it doesn't give back what it took; under `degrade` both are told instead
 */
export async function probeStore(probe: StoreProbe): Promise<void> {
  const { store, storeId, sessionsRoot, policy, outbox, logger, fence } = probe
  const path = probedPath(sessionsRoot, storeId)
  if (!store.capabilities.get || existsSync(path)) return
  const limit = AbortSignal.timeout(LIMIT_MS)
  try {
    await tryOut(probe, AbortSignal.any([fence.signal, limit]))
  } catch (error) {
    fence.signal.throwIfAborted()
    if (limit.aborted || !isNexusError(error) || error.retryable || error.code === 'LOCAL_IO') {
      logger.debug({ err: error }, 'the store could not be tried out now; the next boot will')
      return
    }
    if (policy === 'strict') throw error
    logger.error({ err: error }, error.message)
    outbox.post('core.error', { source: 'core.object_store', error: error.message, fatal: false, retryable: false })
    return
  }
  try {
    await mkdir(dirname(path), { recursive: true, mode: 0o700 })
    await atomicWriteFile(path, '{"_schema_version":1}\n')
  } catch (error) {
    logger.debug({ err: error }, 'that the store was tried out can not be remembered; the next boot tries again')
  }
}

async function tryOut({ store, sessionsRoot, logger }: StoreProbe, signal: AbortSignal): Promise<void> {
  const key = `probe/${randomBytes(8).toString('hex')}`
  const content = randomBytes(32).toString('hex')
  const scratchPath = join(sessionsRoot, '.machine', engineTempName())
  await writeObject(store, key, content, { scratchPath, signal })
  const found = await readObject(store, key, { scratchPath, signal })
  if (found?.toString() !== content) {
    const what = found === undefined ? 'says that it is not there' : 'gives back other bytes'
    throw new NexusError(
      'PRECONDITION',
      `the store took ${key} and then ${what}: look at bucket, endpoint and credentials, ` +
        'and run the contract suite on its driver (nexus backend verify)',
      { op: 'durability.probe-store', key },
    )
  }
  try {
    await store.delete(key, { signal })
  } catch (error) {
    // A right that not every role has, and no session needs.
    logger.warn({ err: error, key }, 'the object that tried out the store can not be deleted')
  }
}
