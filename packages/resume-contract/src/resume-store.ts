import type { StoreInput } from '@nexus/engine'
import type { Backend } from '@nexus/objectstore'

/**
 * A store that the suite may use: how to name it in a configuration, and how to look into it with a client that is *not*
 * the backend under test.
 *
 * @see docs/guides/writing-a-backend.md
 */
export interface ResumeStore {
  /** The name under which the backend registers when its module is imported; also the title of the suite. */
  name: string
  /**
   * Registers the backend under `label` in this process, every opened one passed through `wrap`. Returns what unregisters
   * it.
   */
  register(label: string, wrap: (backend: Backend) => Backend): () => void
  /** Makes an empty bucket and names it. */
  newBucket(): Promise<string> | string
  /** The `core.object_store` block for a registered name and a bucket. */
  objectStoreConfig(backend: string, bucket: string, policy: 'degrade' | 'strict'): StoreInput
  /** Every key of the bucket, prefix included. */
  keys(bucket: string): Promise<string[]>
  /** The bytes of an object. */
  get(bucket: string, key: string): Promise<Uint8Array>
  /** Whether the bucket holds an object under exactly this key. */
  exists(bucket: string, key: string): Promise<boolean>
  /** A child process can reach the store: the kills are then SIGKILLs of real processes. Needs {@link childModule}. */
  crossProcess?: boolean
  /** Absolute URL of a module that registers the backend under {@link name} when it is imported. */
  childModule?: string
}
