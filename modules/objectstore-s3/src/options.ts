import { homedir, tmpdir } from 'node:os'
import { isAbsolute, join, resolve } from 'node:path'
import {
  booleanOption,
  configError,
  integerOption,
  keyFault,
  type ObjectStoreConfig,
  oneOfOption,
  parseEndpoint,
  parseOptions,
  stringOption,
  urlOption,
} from '@nexus/objectstore'

const MIB = 1024 * 1024

/**
 * When checksums are sent with uploads and asked for with downloads. `content_md5` sends the older digest instead, for stores
 * that refuse the newer ones and buckets that demand one.
 */
export type ChecksumMode = 'when_supported' | 'when_required' | 'content_md5'

/** How one s3 backend works, after validation. */
export interface S3Options {
  bucket: string
  /** Key prefix below which this store lives; empty or a valid key. */
  prefix: string
  region: string
  /** A store that is not Amazon's own. */
  endpoint: URL | undefined
  /** Path of an INI file in AWS format, absolute; undefined: the SDK's default chain. */
  credentialsFile: string | undefined
  /** The bucket in the path instead of the host name. Default: with an endpoint. */
  forcePathStyle: boolean
  /** Undefined leaves it to the SDK and its environment variables. */
  checksums: ChecksumMode | undefined
  storageClass: string | undefined
  serverSideEncryption: 'AES256' | 'aws:kms' | 'aws:kms:dsse' | undefined
  kmsKeyId: string | undefined
  /** All requests to the store go through it. May hold a user and a password. */
  proxy: URL | undefined
  /** PEM certificates trusted besides the usual ones, absolute path. */
  caFile: string | undefined
  /** Requests in flight, and sockets. Default 32. */
  concurrency: number
  /** Of one request, the first included. Default 4. */
  maxAttempts: number
  connectTimeoutMs: number
  /** Longest silence of a socket. Default 20 s. */
  idleTimeoutMs: number
  /** Smallest part of a multipart upload. Default 8 MiB. */
  partSizeBytes: number
  /** Directory in which the ids of running multipart uploads are noted, absolute. */
  stateDirectory: string
}

const READERS = {
  storage_class: stringOption(),
  server_side_encryption: oneOfOption('AES256', 'aws:kms', 'aws:kms:dsse'),
  kms_key_id: stringOption(),
  proxy: urlOption(),
  ca_file: stringOption(),
  checksums: oneOfOption('when_supported', 'when_required', 'content_md5'),
  force_path_style: booleanOption(),
  concurrency: integerOption({ min: 1, max: 256 }),
  max_attempts: integerOption({ min: 1, max: 10 }),
  connect_timeout_ms: integerOption({ min: 1, max: 600_000 }),
  idle_timeout_ms: integerOption({ min: 1, max: 600_000 }),
  part_size_mib: integerOption({ min: 5, max: 64 }),
  state_directory: stringOption(),
}

/**
 * Validates the configuration block. Touches neither disk nor network.
 *
 * @throws NexusError `INVALID_ARGUMENT` naming the key
 * @see docs/guides/object-storage.md
 */
export function parseS3Options(config: ObjectStoreConfig): S3Options {
  const { bucket, prefix } = config
  if (bucket === '') throw configError('bucket', 'is required: backend "s3" never creates one')
  // Access points are named by their ARN.
  if (!/^(?:[A-Za-z0-9][A-Za-z0-9._-]*|arn:[\w:/.-]+)$/.test(bucket))
    throw configError('bucket', 'is not a bucket name')
  const fault = prefix === '' ? undefined : keyFault(prefix)
  if (fault !== undefined) throw configError('prefix', fault)
  const endpoint = parseEndpoint(config.endpoint)
  if (endpoint !== undefined && `${endpoint.username}${endpoint.password}${endpoint.search}` !== '') {
    throw configError('endpoint', 'must not hold credentials or a query: credentials go into credentials_file')
  }
  if (endpoint === undefined && config.region === '') {
    throw configError('region', 'is required by backend "s3" where no endpoint is set')
  }
  const options = parseOptions('s3', config.options, READERS)
  const encryption = options.server_side_encryption ?? (options.kms_key_id === undefined ? undefined : 'aws:kms')
  if (options.kms_key_id !== undefined && encryption === 'AES256') {
    throw configError('options.kms_key_id', 'needs options.server_side_encryption aws:kms or aws:kms:dsse')
  }
  return {
    bucket,
    prefix,
    region: config.region === '' ? 'us-east-1' : config.region,
    endpoint,
    credentialsFile: config.credentialsFile === '' ? undefined : absolute(config.credentialsFile),
    forcePathStyle: options.force_path_style ?? endpoint !== undefined,
    checksums: options.checksums ?? defaultChecksums(endpoint),
    storageClass: options.storage_class,
    serverSideEncryption: encryption,
    kmsKeyId: options.kms_key_id,
    proxy: options.proxy,
    caFile: options.ca_file === undefined ? undefined : absolute(options.ca_file),
    concurrency: options.concurrency ?? 32,
    maxAttempts: options.max_attempts ?? 4,
    connectTimeoutMs: options.connect_timeout_ms ?? 5_000,
    idleTimeoutMs: options.idle_timeout_ms ?? 20_000,
    partSizeBytes: (options.part_size_mib ?? 8) * MIB,
    stateDirectory: options.state_directory === undefined ? defaultStateDirectory() : absolute(options.state_directory),
  }
}

// The environment's word is the SDK's to heed; we must know it too, since we add checksums of our own.
function defaultChecksums(endpoint: URL | undefined): ChecksumMode | undefined {
  if (endpoint !== undefined) return 'when_required'
  const asked = process.env['AWS_REQUEST_CHECKSUM_CALCULATION']?.toLowerCase()
  return asked === 'when_required' ? asked : undefined
}

function defaultStateDirectory(): string {
  // By number: in a container the user may have no name, and asking for it fails.
  return join(tmpdir(), `nexus-s3-uploads-${process.getuid?.() ?? 'user'}`)
}

function absolute(path: string): string {
  if (isAbsolute(path)) return resolve(path)
  if (path === '~' || path.startsWith('~/')) return join(homedir(), path.slice(1))
  return resolve(path)
}
