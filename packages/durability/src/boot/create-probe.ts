import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { NexusError } from '@nexus/errors'
import { atomicWriteFile, engineTempName } from '@nexus/host'
import { probedPath, type StoreProbe } from './store-probe.ts'

/** Creates of one name at once: a store that looks first and writes then lets several of so many win. */
const CREATES = 16
/** How long a store may take. A slow one is no wrong one, and is looked at again by the next boot. */
const LIMIT_MS = 10_000

/** The file that remembers, beside the sessions, that this machine has seen a store keep the condition of a create. */
export function createsProbedPath(sessionsRoot: string, storeId: string): string {
  return probedPath(sessionsRoot, `${storeId}\0creates`)
}

/**
 * Lets sixteen create one name at the same moment, once for each store and machine: where more than one wins, nothing keeps two
 * hosts from committing over each other. A store that does not answer is not judged.
 *
 * @throws NexusError `UNSUPPORTED` when the store ignores the condition, under both policies
 */
export async function probeCreates(probe: Omit<StoreProbe, 'policy' | 'outbox'>): Promise<void> {
  const { store, storeId, sessionsRoot, logger, fence } = probe
  const path = createsProbedPath(sessionsRoot, storeId)
  if (existsSync(path)) return
  const signal = AbortSignal.any([fence.signal, AbortSignal.timeout(LIMIT_MS)])
  const key = `probe/${randomBytes(8).toString('hex')}`
  const scratch = join(sessionsRoot, '.machine', engineTempName())
  await mkdir(dirname(path), { recursive: true, mode: 0o700 })
  await writeFile(scratch, key, { mode: 0o600 })
  try {
    const create = (): Promise<boolean> => store.putIfAbsent(key, scratch, { signal })
    const answers = await Promise.allSettled(Array.from({ length: CREATES }, create))
    const created = answers.filter((each) => each.status === 'fulfilled' && each.value).length
    if (created > 1 || (created === 1 && (await create()))) throw ignoresCondition(created, key)
    if (created === 1) await atomicWriteFile(path, '{"_schema_version":1}\n')
  } catch (error) {
    fence.signal.throwIfAborted()
    if (error instanceof NexusError && error.op === OP) throw error
    logger.debug({ err: error }, 'the conditional creates of the store could not be tried out now; the next boot will')
  } finally {
    await rm(scratch, { force: true })
    await store.delete(key, { signal }).catch((error: unknown) => {
      logger.debug({ err: error, key }, 'the object that tried out the store can not be deleted')
    })
  }
}

const OP = 'durability.probe-creates'

function ignoresCondition(created: number, key: string): NexusError {
  return new NexusError(
    'UNSUPPORTED',
    `the store let ${Math.max(created, 2)} of ${CREATES} create one name: it ignores the condition of a create, without which the ` +
      'versioned layout keeps nobody out. Use core.object_store.layout mirror there, or a store that keeps it',
    { op: OP, key },
  )
}
