import { configError, type Logger, redactSecrets } from '@nexus/objectstore'
import { areDefinitelyAbsent } from './credentials.ts'
import type { S3Options } from '../options.ts'
import type { SharedClients } from './shared-clients.ts'

/** How long opening waits for credentials, in ms. */
const CREDENTIALS_MS = 3_000

/**
 * Looks for credentials, with a short bound.
 *
 * @throws NexusError `INVALID_ARGUMENT` naming the key where there are certainly none; a source that does not answer, or not
 *   in time, is warned of
 */
export async function checkCredentials(
  { clients, credentials }: SharedClients,
  { credentialsFile }: S3Options,
  logger: Logger,
  signal: AbortSignal | undefined,
): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  let onAbort: (() => void) | undefined
  const given = new Promise<'slow'>((settle, reject) => {
    timer = setTimeout(() => settle('slow'), CREDENTIALS_MS)
    onAbort = () => reject(signal?.reason as Error)
    signal?.addEventListener('abort', onAbort, { once: true })
  })
  const resolved = clients.plain.config.credentials()
  resolved.catch(() => undefined)
  try {
    if ((await Promise.race([resolved, given])) === 'slow') {
      credentials.abandon()
      logger.warn({}, `no credentials within ${CREDENTIALS_MS / 1000} s; going on, each request will look again`)
    }
  } catch (error) {
    signal?.throwIfAborted()
    const detail = redactSecrets(error instanceof Error ? error.message : String(error))
    if (credentialsFile === undefined && areDefinitelyAbsent(error)) {
      const problem = `names no file, and the SDK's default chain finds no credentials: ${detail}`
      throw configError('credentials_file', problem, error)
    }
    // Not its text: that of a helper program may hold anything.
    logger.warn(
      { reason: error instanceof Error ? error.name : typeof error },
      'credentials can not be resolved now; going on, each request will look again',
    )
  } finally {
    clearTimeout(timer)
    if (onAbort !== undefined) signal?.removeEventListener('abort', onAbort)
  }
}
