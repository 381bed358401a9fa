import {
  type Backend,
  type ByteRange,
  type ErrorClass,
  hydrateObjects,
  isFolderPlaceholder,
  joinKey,
  monotonicProgress,
  type ObjectInfo,
  ObjectNotFoundError,
  type OpOptions,
  replaceFile,
  resolveRange,
  trimKeyPrefix,
  validateKey,
  validateKeyPrefix,
} from '@nexus/objectstore'
import { Faults, type FaultClock } from './faults.ts'
import { breathe, readFirstBytes, writeBytes } from './local-file.ts'

/** One stored object. The bytes are never changed: an overwrite stores a new object. */
export interface StoredObject {
  readonly bytes: Buffer
  readonly modTime: Date
}

/** How a memory backend is made. */
export interface MemoryBackendOptions {
  /** The bucket: raw keys, prefix included. Default: a new, empty one. */
  objects?: Map<string, StoredObject>
  /** Key prefix below which this store lives in the bucket. */
  prefix?: string
  /** Where injected delays take their timers from. */
  clock?: FaultClock
  /** Share the faults and the call log of another backend. */
  faults?: Faults
}

const realTimers: FaultClock = {
  setTimeout: (callback, delayMs) => setTimeout(callback, delayMs),
  clearTimeout: (handle) => clearTimeout(handle as NodeJS.Timeout),
}

const CLASSES: ReadonlySet<unknown> = new Set(['temporary', 'permanent', 'permission', 'not-found', 'throttled'])

/**
 * The reference backend: a map in memory with every capability of the seam and with faults to inject. `close` ends nothing,
 * so that a second engine in the process still finds the bucket.
 */
export class MemoryBackend implements Backend {
  /** The bucket by raw key, to look into and to plant objects in. */
  readonly objects: Map<string, StoredObject>
  readonly faults: Faults
  readonly #prefix: string

  constructor(options: MemoryBackendOptions = {}) {
    this.#prefix = options.prefix ?? ''
    validateKeyPrefix(this.#prefix)
    this.objects = options.objects ?? new Map()
    this.faults = options.faults ?? new Faults(options.clock ?? realTimers)
  }

  /** The same bucket, faults and call log, seen below a key prefix. */
  withPrefix(prefix: string): MemoryBackend {
    return new MemoryBackend({ objects: this.objects, faults: this.faults, prefix })
  }

  /** Puts an object into the bucket under any key, also one that `put` refuses. Neither faults nor the log see it. */
  plant(key: string, content: string | Uint8Array): void {
    this.objects.set(joinKey(this.#prefix, key), { bytes: Buffer.from(content), modTime: new Date() })
  }

  async hydrate(keyPrefix: string, destDir: string, options: OpOptions = {}): Promise<void> {
    validateKeyPrefix(keyPrefix)
    await this.faults.run('hydrate', keyPrefix, options.signal, () =>
      hydrateObjects(
        this.#listed(),
        keyPrefix,
        destDir,
        async ({ key }, tempPath, { signal, onBytes }) => {
          const { bytes } = this.#find(key)
          await writeBytes(tempPath, bytes, { signal, onBytes })
          return bytes.length
        },
        options,
      ),
    )
  }

  async put(key: string, localPath: string, options: OpOptions = {}): Promise<void> {
    validateKey(key)
    await this.faults.run('put', key, options.signal, async () => {
      this.#store(key, await this.#read(localPath, options), options)
    })
  }

  async putIfAbsent(key: string, localPath: string, options: OpOptions = {}): Promise<boolean> {
    validateKey(key)
    return this.faults.run('putIfAbsent', key, options.signal, async () => {
      const bytes = await this.#read(localPath, options)
      // No await between the look and the store: that is what makes one of many creators win.
      if (this.objects.has(joinKey(this.#prefix, key))) return false
      this.#store(key, bytes, options)
      return true
    })
  }

  async get(key: string, localPath: string, options: OpOptions & ByteRange = {}): Promise<void> {
    validateKey(key)
    await this.faults.run('get', key, options.signal, async () => {
      const { bytes } = this.#find(key)
      const { offset, length } = resolveRange(options, bytes.length)
      const range = bytes.subarray(offset, offset + length)
      const progress = monotonicProgress(options.onProgress)
      await replaceFile(localPath, key, async (tempPath) => {
        progress.begin()
        await writeBytes(tempPath, range, { signal: options.signal, onBytes: (moved) => progress.moved(moved) })
        return range.length
      })
      progress.finished(range.length)
    })
  }

  async delete(key: string, options: OpOptions = {}): Promise<void> {
    validateKey(key)
    await this.faults.run('delete', key, options.signal, async () => {
      this.objects.delete(joinKey(this.#prefix, key))
    })
  }

  async list(keyPrefix: string, options: OpOptions = {}): Promise<ObjectInfo[]> {
    validateKeyPrefix(keyPrefix)
    return this.faults.run('list', keyPrefix, options.signal, async () => {
      await breathe()
      const found: ObjectInfo[] = []
      for (const object of this.#listed()) {
        const below = trimKeyPrefix(object.key, keyPrefix)
        if (below !== undefined && !isFolderPlaceholder(below, object.size)) found.push(object)
      }
      options.onProgress?.({ objects: found.length, bytes: 0 })
      return found
    })
  }

  async listNames(keyPrefix: string, options: OpOptions = {}): Promise<string[]> {
    validateKeyPrefix(keyPrefix)
    return this.faults.run('listNames', keyPrefix, options.signal, async () => {
      await breathe()
      const names = new Set<string>()
      for (const { key, size } of this.#listed()) {
        const below = trimKeyPrefix(key, keyPrefix)
        if (below !== undefined && !isFolderPlaceholder(below, size)) names.add(below.split('/')[0] ?? '')
      }
      return [...names]
    })
  }

  async flush(options: OpOptions = {}): Promise<void> {
    await this.faults.run('flush', '', options.signal, async () => undefined)
  }

  async close(): Promise<void> {}

  /** What an injected error says of itself in `errorClass`; a store in memory has no errors of its own. */
  classify(error: unknown): ErrorClass | undefined {
    const errorClass = (error as { errorClass?: unknown } | null | undefined)?.errorClass
    return CLASSES.has(errorClass) ? (errorClass as ErrorClass) : undefined
  }

  *#listed(): Generator<ObjectInfo> {
    for (const [raw, { bytes, modTime }] of this.objects) {
      const key = trimKeyPrefix(raw, this.#prefix)
      if (key !== undefined) yield { key, size: bytes.length, modTime }
    }
  }

  #find(key: string): StoredObject {
    const object = this.objects.get(joinKey(this.#prefix, key))
    if (object === undefined) throw new ObjectNotFoundError(key)
    return object
  }

  async #read(localPath: string, { signal, onProgress }: OpOptions): Promise<Buffer> {
    let bytes = 0
    return readFirstBytes(localPath, {
      signal,
      onBytes: (count) => {
        bytes += count
        onProgress?.({ objects: 0, bytes })
      },
    })
  }

  #store(key: string, bytes: Buffer, { onProgress }: OpOptions): void {
    this.objects.set(joinKey(this.#prefix, key), { bytes, modTime: new Date() })
    onProgress?.({ objects: 1, bytes: bytes.length })
  }
}

/** A fresh, empty memory backend with every capability and with faults to inject. */
export function createMemoryBackend(options: MemoryBackendOptions = {}): MemoryBackend {
  return new MemoryBackend(options)
}
