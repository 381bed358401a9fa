import { homedir } from 'node:os'
import { join, resolve } from 'node:path'
import {
  configError,
  integerOption,
  keyFault,
  type ObjectStoreConfig,
  oneOfOption,
  OptionProblem,
  type OptionReader,
  parseEndpoint,
  parseOptions,
  stringOption,
} from '@nexus/objectstore'

/** How one gcs backend works, after validation. */
export interface GcsOptions {
  bucket: string
  /** Key prefix in the bucket; empty or a valid key. */
  prefix: string
  /** Root of the JSON API, no slash at the end: `https://storage.googleapis.com/storage/v1`. */
  apiUrl: string
  /** Root of its upload side. */
  uploadUrl: string
  /** Whether `endpoint` was configured: an emulator, or a store that only speaks the API. */
  customEndpoint: boolean
  /** Absolute path of a service-account key; empty for Application Default Credentials. */
  credentialsFile: string
  /** Of stored objects; default: the bucket's own. */
  storageClass: string | undefined
  /** Resource name of the Cloud KMS key that encrypts stored objects; default: the bucket's own. */
  kmsKeyName: string | undefined
  /** Project that requests are billed to, for requester-pays buckets. */
  userProject: string | undefined
  /** Requests at a time, and downloads of one hydration. Default 16. */
  concurrency: number
  /** Files above it are uploaded in chunks, in bytes. Default 8 MiB. */
  resumableThresholdBytes: number
  /** Bytes of a chunk, a multiple of 256 KiB. Default 16 MiB. */
  chunkBytes: number
  /** Longest silence of one request before it is given up and tried again. Default 15 s. */
  idleTimeoutMs: number
  /** How long failures in a row are retried. Default 20 s, below the 30 s after which the caller gives up. */
  retryTimeoutMs: number
}

const KIB = 1024
const MIB = 1024 * KIB
/** Chunks are multiples of it. @see https://cloud.google.com/storage/docs/performing-resumable-uploads#chunked-upload */
const CHUNK_QUANTUM_BYTES = 256 * KIB

const READERS = {
  storage_class: oneOfOption('STANDARD', 'NEARLINE', 'COLDLINE', 'ARCHIVE'),
  kms_key_name: kmsKeyOption(),
  user_project: stringOption(),
  concurrency: integerOption({ min: 1, max: 256 }),
  resumable_threshold: integerOption({ min: 0, max: 1024 * MIB }),
  chunk_size: chunkOption(),
  idle_timeout_ms: integerOption({ min: 100, max: 600_000 }),
  retry_timeout_ms: integerOption({ min: 0, max: 600_000 }),
}

/**
 * Validates the configuration block. Touches nothing outside of it.
 *
 * @throws NexusError `INVALID_ARGUMENT` naming the key
 * @see docs/guides/object-storage.md
 */
export function parseGcsOptions(config: ObjectStoreConfig): GcsOptions {
  const { bucket, prefix } = config
  if (bucket === '') throw configError('bucket', 'is required: backend "gcs" needs the name of an existing bucket')
  if (!/^[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]$/.test(bucket)) {
    throw configError('bucket', 'is not a bucket name: 3 to 222 of a-z, 0-9, ".", "_" and "-", without "gs://"')
  }
  const fault = prefix === '' ? undefined : keyFault(prefix)
  if (fault !== undefined) throw configError('prefix', fault)
  const options = parseOptions('gcs', config.options, READERS)
  return {
    bucket,
    prefix,
    ...apiRoots(config.endpoint),
    credentialsFile: config.credentialsFile === '' ? '' : absolute(config.credentialsFile),
    storageClass: options.storage_class,
    kmsKeyName: options.kms_key_name,
    userProject: options.user_project,
    concurrency: options.concurrency ?? 16,
    resumableThresholdBytes: options.resumable_threshold ?? 8 * MIB,
    chunkBytes: options.chunk_size ?? 16 * MIB,
    idleTimeoutMs: options.idle_timeout_ms ?? 15_000,
    retryTimeoutMs: options.retry_timeout_ms ?? 20_000,
  }
}

function absolute(path: string): string {
  return path === '~' || path.startsWith('~/') ? join(homedir(), path.slice(1)) : resolve(path)
}

const API_PATH = '/storage/v1'

function apiRoots(endpoint: string): Pick<GcsOptions, 'apiUrl' | 'uploadUrl' | 'customEndpoint'> {
  const url = parseEndpoint(endpoint)
  if (url === undefined) return { ...roots('https://storage.googleapis.com', API_PATH), customEndpoint: false }
  if (url.username !== '' || url.password !== '') {
    throw configError('endpoint', 'holds credentials: put them into credentials_file')
  }
  if (url.search !== '' || url.hash !== '') throw configError('endpoint', 'must end with its path')
  const path = url.pathname.replace(/\/+$/, '')
  return { ...roots(url.origin, path === '' ? API_PATH : path), customEndpoint: true }
}

function roots(origin: string, path: string): { apiUrl: string; uploadUrl: string } {
  // A gateway may serve the API below a path of its own: `/gcs/storage/v1` uploads at `/gcs/upload/storage/v1`.
  const base = path.endsWith(API_PATH) ? path.slice(0, -API_PATH.length) : undefined
  const upload = base === undefined ? `/upload${path}` : `${base}/upload${API_PATH}`
  return { apiUrl: origin + path, uploadUrl: origin + upload }
}

function kmsKeyOption(): OptionReader<string> {
  return (value) => {
    if (
      typeof value !== 'string' ||
      !/^projects\/[^/]+\/locations\/[^/]+\/keyRings\/[^/]+\/cryptoKeys\/[^/]+$/.test(value)
    ) {
      throw new OptionProblem('must be projects/P/locations/L/keyRings/R/cryptoKeys/K')
    }
    return value
  }
}

function chunkOption(): OptionReader<number> {
  const read = integerOption({ min: CHUNK_QUANTUM_BYTES, max: 1024 * MIB })
  return (value) => {
    const bytes = read(value)
    if (bytes % CHUNK_QUANTUM_BYTES !== 0) throw new OptionProblem(`must be a multiple of ${CHUNK_QUANTUM_BYTES}`)
    return bytes
  }
}
