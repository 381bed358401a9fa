import { readFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { defaultProvider } from '@aws-sdk/credential-provider-node'
import { fromIni } from '@aws-sdk/credential-provider-ini'
import { configError, hideSecrets, systemCode } from '@nexus/objectstore'

/** What a request is signed with. */
export interface Credentials {
  accessKeyId: string
  secretAccessKey: string
  sessionToken?: string
  expiration?: Date
}

/** Resolves credentials, each time anew. The SDK says which client asks: region, proxy and the like of nested requests. */
export type CredentialProvider = (context?: Record<string, unknown>) => Promise<Credentials>

/** How long before their end credentials are fetched anew, in ms; of short-lived ones at half their life. */
const REFRESH_MS = 5 * 60 * 1000

/** How long one resolution is waited for, in ms; one that a request waits for must end within its deadline. */
const RESOLVE_MS = 15_000

/**
 * Holds resolved credentials until shortly before they end, or until the store refuses them. The SDK's own memory never
 * forgets credentials without an end, so that a renewed file would need a restart.
 */
export class CredentialSource {
  readonly #resolve: CredentialProvider
  readonly #nowMs: () => number
  #held: { credentials: Credentials; refreshAtMs: number; endMs: number } | undefined
  #pending: Promise<Credentials> | undefined

  constructor(resolve: CredentialProvider, nowMs: () => number = Date.now) {
    this.#resolve = resolve
    this.#nowMs = nowMs
  }

  /** To be given to a client. Concurrent callers share one resolution. */
  readonly provider: CredentialProvider & { memoized: true } = Object.assign(
    (context?: Record<string, unknown>) => this.#get(context),
    { memoized: true as const },
  )

  /** The next request resolves again. */
  forget(): void {
    this.#held = undefined
  }

  /** Who asks from now on does not wait for a resolution that hangs. If it ends well after all, what it brought is held. */
  abandon(): void {
    this.#pending = undefined
  }

  async #get(context: Record<string, unknown> | undefined): Promise<Credentials> {
    const held = this.#held
    const nowMs = this.#nowMs()
    if (held === undefined || nowMs >= held.endMs) return this.#fetch(context)
    // Ahead of time and beside the work: those at hand are still good, and so is the next attempt if this one fails.
    if (nowMs >= held.refreshAtMs) this.#fetch(context).catch(() => undefined)
    return held.credentials
  }

  #fetch(context: Record<string, unknown> | undefined): Promise<Credentials> {
    if (this.#pending !== undefined) return this.#pending
    const pending = withinTime(this.#fetchOnce(context)).finally(() => {
      if (this.#pending === pending) this.#pending = undefined
    })
    this.#pending = pending
    return pending
  }

  async #fetchOnce(context: Record<string, unknown> | undefined): Promise<Credentials> {
    const credentials = await this.#resolve(context)
    hideSecrets(credentials.secretAccessKey, credentials.sessionToken)
    const nowMs = this.#nowMs()
    const endMs = credentials.expiration?.getTime() ?? Number.POSITIVE_INFINITY
    const refreshAtMs = Math.max(endMs - REFRESH_MS, nowMs + (endMs - nowMs) / 2)
    this.#held = { credentials, refreshAtMs, endMs }
    return credentials
  }
}

async function withinTime<T>(resolution: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const expired = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => {
      const error = new Error(`the source of credentials did not answer within ${RESOLVE_MS / 1000} s`)
      error.name = 'CredentialsProviderError'
      reject(error)
    }, RESOLVE_MS).unref()
  })
  try {
    return await Promise.race([resolution, expired])
  } finally {
    clearTimeout(timer)
  }
}

/** The SDK's default chain, neither reordered nor narrowed, and without its memory. */
export function chainProvider(region: string): CredentialProvider {
  const init = { ignoreCache: true, clientConfig: { region }, parentClientConfig: { region: async () => region } }
  return (context) => defaultProvider(init)(context)
}

/**
 * The profile that `AWS_PROFILE` names, else `default`, of one file in AWS format and nowhere else. The file is read again at
 * each resolution.
 *
 * @throws NexusError `INVALID_ARGUMENT` naming the key when the file or the profile is missing: the SDK would go on to other
 *   credentials, which are another account's
 */
export function fileProvider(path: string): CredentialProvider {
  const profile = profileName()
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (error) {
    const problem = systemCode(error) === 'ENOENT' ? 'does not exist' : 'can not be read'
    throw configError('credentials_file', `names ${path}, which ${problem}`, error)
  }
  if (!hasProfile(text, profile)) {
    throw configError('credentials_file', `names ${path}, which has no profile [${profile}]: AWS_PROFILE picks one`)
  }
  const resolve = fromIni({ filepath: path, configFilepath: path, profile, ignoreCache: true })
  return (context) => resolve(context)
}

function profileName(): string {
  const named = process.env['AWS_PROFILE']
  return named === undefined || named === '' ? 'default' : named
}

const PROFILE_HEADER = /^\s*\[\s*(?:profile\s+)?["']?([^\]"']+?)["']?\s*\]/gm

function hasProfile(text: string, profile: string): boolean {
  return [...text.matchAll(PROFILE_HEADER)].some(([, name]) => name === profile)
}

/** The lines of one profile of a file in AWS format. */
function profileText(text: string, profile: string): string {
  // The headers' names are captured, so that they alternate with what stands below them.
  const [, ...parts] = text.split(PROFILE_HEADER)
  return parts.filter((_part, at) => at % 2 === 1 && parts[at - 1] === profile).join('\n')
}

/**
 * Whether a failure of the SDK's chain says that there are no credentials, and not that a configured source of them did not
 * answer. The chain's last link and a source that failed end in the same error, so what tells is whether the environment or
 * the profile names a source, whatever that answers today.
 */
export function areDefinitelyAbsent(error: unknown): boolean {
  if (!(error instanceof Error) || error.name !== 'CredentialsProviderError') return false
  return !SOURCES.some((name) => (process.env[name] ?? '') !== '') && !hasProfileSource()
}

const SOURCES = [
  'AWS_CONTAINER_CREDENTIALS_RELATIVE_URI',
  'AWS_CONTAINER_CREDENTIALS_FULL_URI',
  'AWS_WEB_IDENTITY_TOKEN_FILE',
  'AWS_EC2_METADATA_SERVICE_ENDPOINT',
]

const SOURCE_OF_PROFILE =
  /^\s*(?:aws_access_key_id|role_arn|credential_process|credential_source|web_identity_token_file|login_session|sso_\w+)\s*=/m

function hasProfileSource(): boolean {
  const shared = process.env['AWS_SHARED_CREDENTIALS_FILE'] || join(homedir(), '.aws', 'credentials')
  const config = process.env['AWS_CONFIG_FILE'] || join(homedir(), '.aws', 'config')
  const profile = profileName()
  return [shared, config].some((path) => SOURCE_OF_PROFILE.test(profileText(textOf(path), profile)))
}

/** An unreadable file is no source: the SDK passes over it as well. */
function textOf(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}
