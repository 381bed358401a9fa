import { Storage, type StorageOptions } from '@google-cloud/storage'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { type Clock, configError, hideSecrets, type Logger, redactSecrets } from '@nexus/objectstore'
import { type AuthClient, gcpMetadata, PassThroughClient } from 'google-auth-library'
import { GcsError } from '../errors.ts'
import { readKeyFile } from './key-file.ts'
import type { GcsOptions } from '../options.ts'

/** What tests put in the place of the vendor's own addresses. */
export interface CredentialInternals {
  /** Where tokens come from instead of the vendor's token endpoints, which the SDK has built in. */
  tokenUrl?: string
}

/** How long opening waits for credentials to be found. */
const OPEN_MS = 5_000
/** How long one request waits for a token: the SDK itself has no limit. */
const TOKEN_MS = 10_000
const OP = 'credentials'

/**
 * The SDK's credentials, in a form that outlives their loss: a client that can get no token is dropped, and the next request
 * looks for credentials anew.
 */
export class Credentials {
  readonly #storageOptions: () => StorageOptions
  readonly #clock: Clock
  #client: Promise<AuthClient> | undefined
  #found: AuthClient | undefined
  #hidden: string | undefined

  constructor(storageOptions: () => StorageOptions, clock: Clock) {
    this.#storageOptions = storageOptions
    this.#clock = clock
  }

  /** A client, before it has a token. */
  async find(): Promise<AuthClient> {
    this.#client ??= this.#resolve()
    const pending = this.#client
    try {
      const client = await pending
      if (this.#client === pending) this.#found = client
      return client
    } catch (error) {
      this.#drop(pending)
      throw error
    }
  }

  /**
   * A client whose token is good for some minutes.
   *
   * @throws GcsError of kind `credentials`; the signal's reason
   */
  async ready(signal: AbortSignal, url: string): Promise<AuthClient> {
    let pending: Promise<AuthClient> | undefined
    const work = async (): Promise<AuthClient> => {
      const client = await this.find()
      pending = this.#client
      this.#hide(tokenOf(await client.getRequestHeaders(url)))
      return client
    }
    try {
      return await bounded(work(), TOKEN_MS, this.#clock, signal)
    } catch (error) {
      signal.throwIfAborted()
      const failure = tokenError(error)
      // A client that is waiting may never stop; one that was refused has old files. One without a network is as good as new.
      const { failure: why } = failure
      const stale = why.kind !== 'credentials' || why.lost || isLate(error)
      if (stale) this.#drop(pending ?? this.#client)
      throw failure
    }
  }

  /** The store did not take the token of this client. */
  refused(client: AuthClient): void {
    // Requests that were under way together are refused together: only the first drops it.
    if (this.#found === client) this.#drop(this.#client)
  }

  #drop(pending: Promise<AuthClient> | undefined): void {
    if (this.#client === pending) this.#client = this.#found = undefined
  }

  async #resolve(): Promise<AuthClient> {
    // The library remembers for the life of the process that there was no metadata server.
    gcpMetadata.resetIsAvailableCache()
    const options = this.#storageOptions()
    try {
      const client = await new Storage(options).authClient.getClient()
      hideSecrets(client.credentials.refresh_token ?? undefined)
      return client
    } catch (error) {
      throw options.credentials === undefined && !isFileNamed() ? new NothingFound(error) : error
    }
  }

  /** Once for each token: it is asked for before every request. */
  #hide(token: string | undefined): void {
    if (token === this.#hidden) return
    this.#hidden = token
    hideSecrets(token)
  }
}

/**
 * Finds the credentials of the configuration: the key file, else Application Default Credentials, else with an endpoint none.
 * Asks no token of anybody.
 *
 * @throws NexusError `INVALID_ARGUMENT` naming the key: the file is not a service-account key, or there is nothing at all
 * @see docs/guides/object-storage.md
 */
export async function openCredentials(
  options: GcsOptions,
  { logger, clock, signal }: { logger: Logger; clock: Clock; signal: AbortSignal },
  { tokenUrl }: CredentialInternals = {},
): Promise<Credentials> {
  const clientOptions = tokenUrl === undefined ? {} : { clientOptions: redirectTokens(tokenUrl) }
  const { credentialsFile } = options
  if (credentialsFile !== '') {
    readKeyFile(credentialsFile)
    // Read again whenever credentials are looked for, because keys are rotated in place.
    return new Credentials(() => ({ credentials: readKeyFile(credentialsFile), ...clientOptions }), clock)
  }
  const found = new Credentials(() => ({ ...clientOptions }), clock)
  try {
    await bounded(found.find(), OPEN_MS, clock, signal)
    return found
  } catch (error) {
    signal.throwIfAborted()
    const problem = redactSecrets(error instanceof Error ? error.message : String(error))
    if (isLate(error) || (error instanceof NothingFound && namesMetadataServer())) {
      logger.warn({ error: problem }, 'the credentials can not be looked up now; going on, each request will try again')
      return found
    }
    if (!options.customEndpoint) {
      const wayOut = 'name a service-account key, or set up Application Default Credentials'
      throw configError('credentials_file', `is empty, and there is nothing else: ${wayOut} (${problem})`)
    }
    logger.warn({ error: problem }, 'no credentials found: requests to the endpoint go unauthenticated')
    return new Credentials(() => ({ authClient: new PassThroughClient() }), clock)
  }
}

// The one for service accounts, the one for users.
const TOKEN_URLS = new Set(['https://www.googleapis.com/oauth2/v4/token', 'https://oauth2.googleapis.com/token'])

function redirectTokens(tokenUrl: string): NonNullable<StorageOptions['clientOptions']> {
  type Defaults = NonNullable<NonNullable<StorageOptions['clientOptions']>['transporterOptions']>
  const adapter: Defaults['adapter'] = async (request, send) => {
    const url = TOKEN_URLS.has(String(request.url)) ? tokenUrl : request.url
    return send(url === undefined ? request : { ...request, url })
  }
  return { transporterOptions: { adapter } }
}

/** The search for credentials ended without any, and no file of them is named: what is left is a metadata server. */
class NothingFound extends Error {
  constructor(cause: unknown) {
    super(cause instanceof Error ? cause.message : String(cause), { cause })
    this.name = 'NothingFound'
  }
}

/** Whether the environment or gcloud names a file of credentials: what is wrong with it does not go by waiting. */
function isFileNamed(): boolean {
  const { GOOGLE_APPLICATION_CREDENTIALS: upper = '', google_application_credentials: lower = '' } = process.env
  const { HOME: home = '' } = process.env
  const own = join(home, '.config', 'gcloud', 'application_default_credentials.json')
  return upper !== '' || lower !== '' || (home !== '' && existsSync(own))
}

/** The environment says that there is a metadata server, so that it does not answer is an outage. */
function namesMetadataServer(): boolean {
  const { GCE_METADATA_HOST: host = '', GCE_METADATA_IP: ip = '' } = process.env
  return host !== '' || ip !== ''
}

function tokenError(error: unknown): GcsError {
  if (error instanceof GcsError) return error
  const { response, code } = error as { response?: { status?: unknown }; code?: unknown }
  const status = typeof response?.status === 'number' ? response.status : undefined
  const unreachable = status === undefined ? isNetworkCode(code) : status >= 500
  const absent = error instanceof NothingFound && namesMetadataServer()
  const lost = !unreachable && !absent && !isLate(error)
  const detail = error instanceof Error && typeof error.message === 'string' ? error.message : 'unknown failure'
  return new GcsError(OP, `no access token: ${detail}`, { kind: 'credentials', lost })
}

/**
 * What the client signs with; undefined for one that does not sign.
 *
 * @throws GcsError for a token endpoint that answers nonsense with 200, say a portal, which leads the SDK to sign with the
 *   word `undefined`
 */
function tokenOf(headers: Readonly<Record<string, string | undefined>>): string | undefined {
  const given = headers['Authorization'] ?? headers['authorization']
  if (given === undefined || !NO_TOKEN.test(given)) return given?.replace(/^Bearer +/, '')
  throw new GcsError(OP, 'the token endpoint answered without a token', { kind: 'credentials', lost: false })
}

const NO_TOKEN = /^Bearer *(?:undefined|null|\[object .*)?$/

function isNetworkCode(code: unknown): boolean {
  return typeof code === 'string' && /^E(CONN|HOST|NET|TIMEDOUT|PIPE|AI_|NOTFOUND|SOCKET)/.test(code)
}

function isLate(error: unknown): boolean {
  return error instanceof TookTooLong
}

class TookTooLong extends Error {
  constructor(limitMs: number) {
    super(`nothing after ${limitMs / 1000} s`)
    this.name = 'TookTooLong'
  }
}

// The SDK takes no signal here. What it is doing ends by itself, and its result is ignored.
async function bounded<T>(work: Promise<T>, limitMs: number, clock: Clock, signal: AbortSignal): Promise<T> {
  signal.throwIfAborted()
  return await new Promise<T>((resolve, reject) => {
    const stop = (finish: () => void): void => {
      clock.clearTimeout(timer)
      signal.removeEventListener('abort', onAbort)
      finish()
    }
    const onAbort = (): void => stop(() => reject(signal.reason as Error))
    const timer = clock.setTimeout(() => stop(() => reject(new TookTooLong(limitMs))), limitMs)
    signal.addEventListener('abort', onAbort, { once: true })
    work.then(
      (value) => stop(() => resolve(value)),
      (error: unknown) => stop(() => reject(error)),
    )
  })
}
