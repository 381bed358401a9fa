import { NexusError } from '@nexus/errors'
import { validateKeyPrefix } from './keys.ts'

/**
 * The `core.object_store` block as a driver sees it. Strings are empty when not configured; what a driver requires it
 * demands itself, naming the key.
 */
export interface ObjectStoreConfig {
  /** The registered name of the backend. */
  backend: string
  bucket: string
  /** Key prefix below which this store lives in the bucket; no leading or trailing `/`. Objects are at `<prefix>/<key>`. */
  prefix: string
  region: string
  /** Absolute http or https URL of a store that is not the vendor's own. */
  endpoint: string
  /** Path of a credentials file in the vendor's format. */
  credentialsFile: string
  /** The driver's own options, snake_case names, validated by the driver with `parseOptions`. */
  options: Record<string, unknown>
}

/**
 * A whole configuration from the parts that matter, for programs and tests that have no YAML.
 *
 * @throws NexusError `INVALID_ARGUMENT` without a backend name; `InvalidKeyError` for a malformed prefix
 */
export function objectStoreConfig(parts: Partial<ObjectStoreConfig> & { backend: string }): ObjectStoreConfig {
  if (parts.backend === '') throw configError('backend', 'is empty: name a registered backend')
  validateKeyPrefix(parts.prefix ?? '')
  return {
    bucket: '',
    prefix: '',
    region: '',
    endpoint: '',
    credentialsFile: '',
    ...parts,
    options: { ...parts.options },
  }
}

/**
 * An error about one key of the `core.object_store` block, code `INVALID_ARGUMENT`. `problem` continues the key's name and
 * never quotes the value, which may be a secret.
 *
 * @param key as in YAML below `core.object_store`: `bucket`, `options.storage_class`
 */
export function configError(key: string, problem: string, cause?: unknown): NexusError {
  const name = `core.object_store.${key}`
  return new NexusError('INVALID_ARGUMENT', `${name} ${problem}`, { op: 'objectstore.open', key: name, cause })
}
