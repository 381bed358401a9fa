import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { mkdir, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { atomicWriteFile } from '@nexus/host'
import type { ObjectInfo } from '@nexus/objectstore'

/** Everything the engine keeps of shared roots on this machine lies here, below the storage root. */
export const SHARED_FOLDER = '.shared-roots'

/** What this machine knows of one object of a shared root. */
export interface SharedObjectRecord {
  /** Digest of what this machine last hydrated or stored; undefined until a store was acknowledged. */
  sha256: string | undefined
  /** Digests of stores whose answer may have been lost, oldest first. */
  attempts: string[]
  /** The object as the store listed it when it held `sha256`: while that is so, no other has been stored. */
  seen?: SeenObject | undefined
}

/** What a listing tells of an object. */
export interface SeenObject {
  sizeBytes: number
  /** Milliseconds since the Unix epoch. */
  modifiedAtMs: number
}

/** {@link SeenObject} of a listed object; undefined where the store has no times, which then tell nothing. */
export function seenObject({ size, modTime }: ObjectInfo): SeenObject | undefined {
  return modTime === undefined ? undefined : { sizeBytes: size, modifiedAtMs: modTime.getTime() }
}

/** Whether a listed object is the one that was seen. */
export function isAsSeen(seen: SeenObject | undefined, object: ObjectInfo): boolean {
  return seen !== undefined && seen.sizeBytes === object.size && seen.modifiedAtMs === object.modTime?.getTime()
}

const SCHEMA_VERSION = 1
const ATTEMPTS_LIMIT = 16

/**
 * The machine's memory of the shared stores of one object store, shared by all processes: which roots were looked for, and
 * which objects came from here. The record of an object is only touched under its lock.
 */
export class SharedRootsRecord {
  readonly #folder: string
  readonly #storeId: string

  constructor(storageRoot: string, storeId: string) {
    this.#folder = join(storageRoot, SHARED_FOLDER)
    this.#storeId = storeId
  }

  /** The lock directory of an object. The same for every object store, since it is the database that is copied. */
  lockDir(key: string): string {
    return join(this.#folder, 'locks', digest(key))
  }

  /** Whether this machine ever completed a look for everything below this root. */
  wasHydrated(root: string): boolean {
    return this.#read(this.#path('root', root)) !== undefined
  }

  async noteHydrated(root: string): Promise<void> {
    await this.#write(this.#path('root', root), { root })
  }

  /** Undefined for an object that this machine neither hydrated nor tried to store. */
  object(key: string): SharedObjectRecord | undefined {
    const wire = this.#read(this.#path('object', key))
    if (wire === undefined) return undefined
    const attempts = Array.isArray(wire['attempts']) ? wire['attempts'].filter((each) => typeof each === 'string') : []
    const sha256 = typeof wire['sha256'] === 'string' ? wire['sha256'] : undefined
    return { sha256, attempts, seen: readSeen(wire['seen']) }
  }

  async noteObject(key: string, record: SharedObjectRecord): Promise<void> {
    await this.#write(this.#path('object', key), {
      key,
      ...(record.sha256 === undefined ? {} : { sha256: record.sha256 }),
      attempts: record.attempts.slice(-ATTEMPTS_LIMIT),
      ...(record.seen === undefined
        ? {}
        : { seen: { size_bytes: record.seen.sizeBytes, modified_at_ms: record.seen.modifiedAtMs } }),
    })
  }

  /** As if this machine had never had the object. */
  async forgetObject(key: string): Promise<void> {
    await rm(this.#path('object', key), { force: true })
  }

  #path(kind: 'root' | 'object', name: string): string {
    return join(this.#folder, 'records', `${digest(`${this.#storeId}\0${kind}\0${name}`)}.json`)
  }

  #read(path: string): Record<string, unknown> | undefined {
    try {
      const wire = JSON.parse(readFileSync(path, 'utf8')) as Record<string, unknown> | null
      return wire?.['_schema_version'] === SCHEMA_VERSION ? wire : undefined
    } catch {
      // Nothing known is the safe reading: nothing is overwritten.
      return undefined
    }
  }

  async #write(path: string, fields: Record<string, unknown>): Promise<void> {
    await mkdir(dirname(path), { recursive: true, mode: 0o700 })
    await atomicWriteFile(
      path,
      `${JSON.stringify({ _schema_version: SCHEMA_VERSION, store: this.#storeId, ...fields })}\n`,
    )
  }
}

function readSeen(wire: unknown): SeenObject | undefined {
  const { size_bytes: sizeBytes, modified_at_ms: modifiedAtMs } = (wire ?? {}) as Record<string, unknown>
  return typeof sizeBytes === 'number' && typeof modifiedAtMs === 'number' ? { sizeBytes, modifiedAtMs } : undefined
}

function digest(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 32)
}
