import { homedir } from 'node:os'
import { isAbsolute, join, resolve } from 'node:path'
import {
  booleanOption,
  configError,
  keyFault,
  type ObjectStoreConfig,
  type OptionReader,
  OptionProblem,
  parseOptions,
} from '@nexus/objectstore'

/** How one fs backend works, after validation. */
export interface FsOptions {
  /** The bucket directory, absolute. */
  bucket: string
  /** Key prefix below it; empty or a valid key. */
  prefix: string
  /** Whether `put` and `delete` are durable when they resolve. Default true. */
  fsync: boolean
  /** Whether the bucket must be a mount point. Default false. */
  requireMount: boolean
  /** Permission bits of stored objects. Default 0o600. */
  fileMode: number
  /** Permission bits of directories made below the bucket. Default 0o700. */
  directoryMode: number
}

const READERS = {
  fsync: booleanOption(),
  require_mount: booleanOption(),
  file_mode: modeOption(0o600),
  directory_mode: modeOption(0o700),
}

/**
 * Validates the configuration block. Touches no disk: whether the bucket is there is found out in the worker.
 *
 * @throws NexusError `INVALID_ARGUMENT` naming the key
 * @see docs/guides/object-storage.md
 */
export function parseFsOptions(config: ObjectStoreConfig): FsOptions {
  const { bucket, prefix } = config
  if (bucket === '') throw configError('bucket', 'is required: backend "fs" needs the path of an existing directory')
  if (bucket.includes('\0')) throw configError('bucket', 'contains a NUL character')
  for (const [key, value] of [
    ['region', config.region],
    ['endpoint', config.endpoint],
    ['credentials_file', config.credentialsFile],
  ] as const) {
    if (value !== '') throw configError(key, 'means nothing to backend "fs": remove it')
  }
  const fault = prefix === '' ? undefined : keyFault(prefix)
  if (fault !== undefined) throw configError('prefix', fault)
  const options = parseOptions('fs', config.options, READERS)
  return {
    bucket: absolute(bucket),
    prefix,
    fsync: options.fsync ?? true,
    requireMount: options.require_mount ?? false,
    fileMode: options.file_mode ?? 0o600,
    directoryMode: options.directory_mode ?? 0o700,
  }
}

function absolute(path: string): string {
  if (isAbsolute(path)) return resolve(path)
  if (path === '~' || path.startsWith('~/')) return join(homedir(), path.slice(1))
  return resolve(path)
}

/**
 * Octal permission bits as a string. A YAML number would be read as decimal by one parser and as octal by another.
 *
 * @param least bits without which we couldn't read our own objects
 */
function modeOption(least: number): OptionReader<number> {
  return (value) => {
    const mode = typeof value === 'string' && /^0?[0-7]{3}$/.test(value) ? Number.parseInt(value, 8) : undefined
    if (mode === undefined || (mode & least) !== least) {
      const example = `"0${least.toString(8)}"`
      throw new OptionProblem(`must be a string of octal permission bits that hold at least ${example}`)
    }
    return mode
  }
}
