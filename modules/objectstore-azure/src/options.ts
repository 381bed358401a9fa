import { homedir } from 'node:os'
import { join, resolve } from 'node:path'
import {
  configError,
  integerOption,
  keyFault,
  type ObjectStoreConfig,
  oneOfOption,
  parseEndpoint,
  parseOptions,
  stringOption,
} from '@nexus/objectstore'

/** Where credentials come from. Secrets are read where they are needed, and stand nowhere else. */
export type CredentialSource =
  | { kind: 'file'; path: string }
  /** A connection string, a SAS token or an account key from the configuration; `option` names it in errors. */
  | { kind: 'text'; option: 'connection_string' | 'account_key' | 'sas_token'; text: string }
  /** Microsoft Entra: environment, workload identity, managed identity, developer tools. */
  | { kind: 'identity'; clientId: string | undefined }

/** How one azure backend works, after validation. */
export interface AzureOptions {
  /** The bucket of the configuration: Blob Storage calls it a container. */
  container: string
  /** Key prefix in the container; empty or a valid key. */
  prefix: string
  /** Of the storage account; empty where a connection string names it. */
  account: string
  /** Root of the blob service, no slash at the end; empty where a connection string names it. */
  serviceUrl: string
  credentials: CredentialSource
  /** Of stored blobs; default: the account's own. */
  accessTier: 'Hot' | 'Cool' | 'Cold' | undefined
  /** Of stored blobs; default: the container's own. */
  encryptionScope: string | undefined
  /** Names in one answer to a listing, from 1 to 5000, the vendor's most and the default. */
  pageSize: number
  /** Requests at a time, and downloads of one hydration. Default 16. */
  concurrency: number
  /** Files above it are uploaded in blocks, in bytes. Default 16 MiB. */
  blockThresholdBytes: number
  /** Least bytes of a block. Default 8 MiB. */
  blockBytes: number
  /** Longest silence of one request before it is given up and tried again. Default 15 s. */
  idleTimeoutMs: number
  /** How long failures in a row are retried. Default 20 s, below the 30 s after which the caller gives up. */
  retryTimeoutMs: number
}

const MIB = 1024 * 1024

const READERS = {
  account: stringOption(),
  connection_string: stringOption(),
  account_key: stringOption(),
  sas_token: stringOption(),
  managed_identity_client_id: stringOption(),
  // Not `Archive`: what is in there can't be read, and the session not be resumed.
  access_tier: oneOfOption('Hot', 'Cool', 'Cold'),
  encryption_scope: stringOption(),
  page_size: integerOption({ min: 1, max: 5000 }),
  concurrency: integerOption({ min: 1, max: 256 }),
  block_threshold: integerOption({ min: 0, max: 5000 * MIB }),
  block_size: integerOption({ min: 64 * 1024, max: 4000 * MIB }),
  idle_timeout_ms: integerOption({ min: 100, max: 600_000 }),
  retry_timeout_ms: integerOption({ min: 0, max: 600_000 }),
}

type Parsed = ReturnType<typeof parseOptions<typeof READERS>>

/**
 * Validates the configuration block. Touches nothing outside of it.
 *
 * @throws NexusError `INVALID_ARGUMENT` naming the key
 * @see docs/guides/object-storage.md
 */
export function parseAzureOptions(config: ObjectStoreConfig): AzureOptions {
  const { bucket, prefix } = config
  if (bucket === '') throw configError('bucket', 'is required: backend "azure" needs the name of an existing container')
  if (!/^[a-z0-9](?:-?[a-z0-9]){2,62}$/.test(bucket)) {
    throw configError('bucket', 'is not the name of a container: 3 to 63 of a-z, 0-9 and single "-"')
  }
  const fault = prefix === '' ? undefined : keyFault(prefix)
  if (fault !== undefined) throw configError('prefix', fault)
  const options = parseOptions('azure', config.options, READERS)
  const credentials = credentialSource(config, options)
  return {
    container: bucket,
    prefix,
    ...service(config, options, credentials),
    credentials,
    accessTier: options.access_tier,
    encryptionScope: options.encryption_scope,
    pageSize: options.page_size ?? 5000,
    concurrency: options.concurrency ?? 16,
    blockThresholdBytes: options.block_threshold ?? 16 * MIB,
    blockBytes: options.block_size ?? 8 * MIB,
    idleTimeoutMs: options.idle_timeout_ms ?? 15_000,
    retryTimeoutMs: options.retry_timeout_ms ?? 20_000,
  }
}

function credentialSource({ credentialsFile }: ObjectStoreConfig, options: Parsed): CredentialSource {
  const named = (['connection_string', 'account_key', 'sas_token'] as const).filter(
    (name) => options[name] !== undefined,
  )
  const [option, second] = named
  if (second !== undefined) throw configError(`options.${second}`, `and options.${String(option)} exclude each other`)
  if (option === undefined) {
    if (credentialsFile === '') return { kind: 'identity', clientId: options.managed_identity_client_id }
    return { kind: 'file', path: absolute(credentialsFile) }
  }
  if (credentialsFile !== '') throw configError('credentials_file', `and options.${option} exclude each other`)
  return { kind: 'text', option, text: options[option] ?? '' }
}

/** Account and URL: of the endpoint, of the account's name, or left to the connection string. */
function service(
  { endpoint }: ObjectStoreConfig,
  { account = '' }: Parsed,
  credentials: CredentialSource,
): Pick<AzureOptions, 'account' | 'serviceUrl'> {
  if (account !== '' && !/^[a-z0-9]{3,24}$/.test(account)) {
    throw configError('options.account', 'is not the name of a storage account: 3 to 24 of a-z and 0-9')
  }
  const url = parseEndpoint(endpoint)
  const inString = credentials.kind === 'text' && credentials.option === 'connection_string'
  if (inString && (url !== undefined || account !== '')) {
    throw configError(url === undefined ? 'options.account' : 'endpoint', 'is in the connection string: leave it out')
  }
  if (url !== undefined) {
    if (url.username !== '' || url.password !== '') {
      throw configError('endpoint', 'holds credentials: put them into credentials_file')
    }
    if (url.search !== '' || url.hash !== '') {
      throw configError('endpoint', 'must end with its path: a SAS token goes into credentials_file')
    }
    const path = url.pathname.replace(/\/+$/, '')
    return { account: account === '' ? accountOf(url.hostname, path) : account, serviceUrl: url.origin + path }
  }
  if (account !== '') return { account, serviceUrl: `https://${account}.blob.core.windows.net` }
  // A file may hold one of either kind, and is read when it is needed.
  if (inString || credentials.kind === 'file') return { account: '', serviceUrl: '' }
  throw configError(
    'options.account',
    'is required by backend "azure" where neither endpoint nor connection string is set',
  )
}

/** The vendor's hosts begin with the account; emulators and private clouds have it in the path. */
function accountOf(hostname: string, path: string): string {
  return path.split('/')[1] ?? hostname.split('.')[0] ?? ''
}

function absolute(path: string): string {
  return path === '~' || path.startsWith('~/') ? join(homedir(), path.slice(1)) : resolve(path)
}
