import { readFileSync } from 'node:fs'
import {
  AnonymousCredential,
  BlobServiceClient,
  type StoragePipelineOptions,
  StorageSharedKeyCredential,
} from '@azure/storage-blob'
import { configError, hideSecrets, type Logger, redactSecrets, untilAborted } from '@nexus/objectstore'
import { namesIdentity, toAzureError } from '../errors.ts'
import type { AzureOptions } from '../options.ts'

/** How long opening waits for a first token, in ms. */
const OPEN_MS = 5_000
const SCOPE = 'https://storage.azure.com/.default'

/** Retries are ours: with turns, jitter, the caller's signal, and none for conditional creates. */
const PIPELINE: StoragePipelineOptions = {
  retryOptions: { maxTries: 1 },
  userAgentOptions: { userAgentPrefix: 'nexus-objectstore-azure' },
}

/**
 * A client that is signed in, made anew after a refusal: files are rotated in place.
 *
 * @throws NexusError `INVALID_ARGUMENT` naming the key of a text or file that is no credential
 */
export class Credentials {
  readonly #make: () => BlobServiceClient
  #client: BlobServiceClient | undefined

  constructor(make: () => BlobServiceClient) {
    this.#make = make
  }

  get client(): BlobServiceClient {
    this.#client ??= this.#make()
    return this.#client
  }

  /** The store did not take the credentials of this client. */
  refused(client: BlobServiceClient): void {
    // Requests that were under way together are refused together: only the first drops it.
    if (this.#client === client) this.#client = undefined
  }
}

/**
 * Finds the credentials of the configuration: a text or a file of it, else Microsoft Entra's default chain. Of that a first
 * token is asked for, for five seconds at most.
 *
 * @throws NexusError `INVALID_ARGUMENT` naming the key: the text is no credential, or there is nothing at all
 * @see docs/guides/object-storage.md
 */
export async function openCredentials(
  options: AzureOptions,
  { logger, signal }: { logger: Logger; signal: AbortSignal },
): Promise<Credentials> {
  const { credentials } = options
  if (credentials.kind === 'identity') return openIdentity(options, credentials.clientId, logger, signal)
  const found = new Credentials(() => {
    if (credentials.kind === 'text') return signedIn(options, credentials.text, `options.${credentials.option}`)
    return signedIn(options, readCredentialsFile(credentials.path), 'credentials_file')
  })
  // Now, so that a missing or wrong file fails the open.
  void found.client
  return found
}

function readCredentialsFile(path: string): string {
  try {
    return readFileSync(path, 'utf8').trim()
  } catch (error) {
    throw configError('credentials_file', 'can not be read', error)
  }
}

/** A client for one of the three kinds of secrets, told by their form. */
function signedIn(options: AzureOptions, text: string, key: string): BlobServiceClient {
  const { account, serviceUrl } = options
  hideSecrets(
    text,
    ...[...text.matchAll(/(?:AccountKey=|SharedAccessSignature=|\bsig=)([^;&\s]+)/g)].map(([, secret]) => secret),
  )
  if (/(?:AccountName|BlobEndpoint)=|UseDevelopmentStorage=true/i.test(text)) {
    try {
      return BlobServiceClient.fromConnectionString(text, { ...PIPELINE })
    } catch {
      // The SDK's error quotes the string.
      throw configError(key, 'is no connection string that the SDK can read: copy it from the portal, whole')
    }
  }
  const isSas = /\bsig=/.test(text)
  if (!isSas && !/^[A-Za-z0-9+/]{40,}={0,2}$/.test(text)) {
    throw configError(key, 'holds neither a connection string, nor a SAS token, nor an account key')
  }
  if (serviceUrl === '') throw configError('options.account', `is required: ${key} does not name the storage account`)
  if (isSas)
    return new BlobServiceClient(`${serviceUrl}?${text.replace(/^\?/, '')}`, new AnonymousCredential(), PIPELINE)
  return new BlobServiceClient(serviceUrl, new StorageSharedKeyCredential(account, text), PIPELINE)
}

async function openIdentity(
  { serviceUrl }: AzureOptions,
  clientId: string | undefined,
  logger: Logger,
  signal: AbortSignal,
): Promise<Credentials> {
  if (!serviceUrl.startsWith('https:')) {
    const wayOut = 'and tokens go over https only: set credentials_file, or options.connection_string'
    throw configError('credentials_file', `is empty, ${wayOut}`)
  }
  const { DefaultAzureCredential } = await import('@azure/identity')
  const ids = clientId === undefined ? {} : { managedIdentityClientId: clientId, workloadIdentityClientId: clientId }
  const credential = new DefaultAzureCredential(ids)
  const limit = AbortSignal.timeout(OPEN_MS)
  const bounded = AbortSignal.any([signal, limit])
  try {
    await untilAborted(credential.getToken(SCOPE, { abortSignal: bounded }), bounded)
  } catch (error) {
    signal.throwIfAborted()
    const problem = redactSecrets(error instanceof Error ? error.message : String(error))
    if (!limit.aborted && !namesIdentity() && isLost(error)) {
      const wayOut = 'set it, or an option with a secret, or give this machine a managed identity'
      throw configError('credentials_file', `is empty, and there is nothing else: ${wayOut} (${problem})`)
    }
    logger.warn({ error: problem }, 'no access token now; going on, each request will try again')
  }
  // Its own cache renews tokens before they end, and asks again after a refusal.
  return new Credentials(() => new BlobServiceClient(serviceUrl, credential, PIPELINE))
}

function isLost(error: unknown): boolean {
  const { failure } = toAzureError('credentials', error)
  return failure.kind === 'credentials' && failure.lost
}
