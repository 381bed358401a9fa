import { statSync } from 'node:fs'
import { NexusError } from '@nexus/errors'
import { type BoundedCall, type CallOptions, startBoundedCall } from './bounded-call.ts'
import { type Clock, systemClock } from '@nexus/host'
import { type Deadlines, DEFAULT_DEADLINES, DEFAULT_MIN_RATE_KIB_S } from './limits.ts'
import type { Backend, ByteRange, ObjectInfo, OpOptions, Progress } from '../driver.ts'
import { keyFault, trimKeyPrefix, validateKey, validateKeyPrefix } from '../keys.ts'
import { assertBackend } from '../registry.ts'
import { pause } from '../transfer/waiting.ts'
import { getByHydrating } from './emulated-get.ts'
import { type CallContext, describeCall, wrapError } from './wrap-error.ts'

/** How often an object is asked for that arrives shorter than it should be. */
const GET_ATTEMPTS = 3
const LONGEST_PAUSE_MS = 400

/** What an {@link ObjectStore} is built with. */
export interface ObjectStoreOptions {
  /** How errors call this store: the configured backend name. */
  name: string
  clock?: Clock
  /** The slowest rate at which transfers go on, in KiB per second, at least 1. Default 16. Calls in flight share it. */
  minRateKibS?: number
  /** For tests. */
  deadlines?: Partial<Deadlines>
}

/** What the backend can do beyond the five methods, by itself. `get` and `listNames` work without, at a higher price. */
export interface Capabilities {
  readonly get: boolean
  readonly putIfAbsent: boolean
  readonly listNames: boolean
}

type Call = Omit<CallContext, 'store' | 'classify'>

/** How much a call is going to move, for callers that know: what a driver that never reports may take grows with it. */
export interface ExpectedSize {
  expected?: Partial<Progress>
}

/**
 * What the engine calls over any {@link Backend}: validation, deadlines and error wrapping, written once so that no driver
 * repeats them.
 *
 * Every method rejects with a `NexusError` (see {@link wrapError} for the codes), or with the reason of the caller's own
 * signal, untouched. A driver that neither answers nor heeds its signal is given up on when the deadline and a short grace
 * are over; what it does later is ignored. A call that ran out of time is `UNAVAILABLE`, for `putIfAbsent`
 * `OUTCOME_UNKNOWN`.
 */
export class ObjectStore {
  readonly name: string
  readonly capabilities: Capabilities
  readonly #backend: Backend
  readonly #clock: Clock
  readonly #deadlines: Deadlines
  readonly #minRate: number
  readonly #running = new Set<BoundedCall<unknown>>()
  #unflushed: Progress = { objects: 0, bytes: 0 }
  #closing: Promise<void> | undefined

  /** @throws NexusError `INTERNAL` when the object lacks one of the five methods */
  constructor(backend: Backend, options: ObjectStoreOptions) {
    assertBackend(backend, options.name)
    this.name = options.name
    this.#backend = backend
    this.#clock = options.clock ?? systemClock
    this.#deadlines = { ...DEFAULT_DEADLINES, ...options.deadlines }
    this.#minRate = (options.minRateKibS ?? DEFAULT_MIN_RATE_KIB_S) * 1024
    this.capabilities = Object.freeze({
      get: typeof backend.get === 'function',
      putIfAbsent: typeof backend.putIfAbsent === 'function',
      listNames: typeof backend.listNames === 'function',
    })
  }

  /** Downloads everything under a prefix into a directory; see {@link Backend.hydrate}. */
  async hydrate(keyPrefix: string, destDir: string, options: CallOptions & ExpectedSize = {}): Promise<void> {
    validateKeyPrefix(keyPrefix)
    validatePath(destDir, 'hydrate')
    const call = { verb: 'hydrate', key: keyPrefix, localPath: destDir }
    await this.#call(call, options, (each) => this.#backend.hydrate(keyPrefix, destDir, each))
  }

  /** Stores a file as the whole new content of a key; see {@link Backend.put}. A local failure is `LOCAL_IO`. */
  async put(key: string, localPath: string, options: CallOptions = {}): Promise<void> {
    validateKey(key)
    validatePath(localPath, 'put')
    const bytes = fileSize(localPath)
    const call = { verb: 'put', key, localPath }
    await this.#call(call, { ...options, expected: { bytes } }, (each) => this.#backend.put(key, localPath, each))
    this.#owe(bytes)
  }

  /** Removes an object; a missing one is a success. */
  async delete(key: string, options: CallOptions = {}): Promise<void> {
    validateKey(key)
    await this.#call({ verb: 'delete', key }, options, (each) => this.#backend.delete(key, each))
    this.#owe(0)
  }

  /**
   * Every object under a prefix, in no order. A driver that answers with keys outside the prefix is refused with `INTERNAL`:
   * acting on them would mix two sessions.
   */
  async list(keyPrefix: string, options: CallOptions & ExpectedSize = {}): Promise<ObjectInfo[]> {
    validateKeyPrefix(keyPrefix)
    const call = { verb: 'list', key: keyPrefix }
    const objects = await this.#call(call, options, (each) => this.#backend.list(keyPrefix, each))
    this.#checkListing(objects, keyPrefix)
    return objects
  }

  /** The names one level below a prefix, sorted; see {@link Backend.listNames}. Without the capability, from the listing. */
  async listNames(keyPrefix: string, options: CallOptions = {}): Promise<string[]> {
    validateKeyPrefix(keyPrefix)
    const backend = this.#backend
    if (backend.listNames === undefined) {
      const objects = await this.list(keyPrefix, options)
      const firstSegment = ({ key }: ObjectInfo): string => trimKeyPrefix(key, keyPrefix)?.split('/')[0] ?? ''
      return [...new Set(objects.map(firstSegment))].toSorted()
    }
    const call = { verb: 'listNames', key: keyPrefix }
    const names: unknown = await this.#call(call, options, async (each) => backend.listNames?.(keyPrefix, each))
    if (Array.isArray(names) && names.every(isName)) return [...new Set(names as string[])].toSorted()
    throw this.#broken('listNames', 'answered with something that is no name')
  }

  /** Resolves when every earlier put and delete is durable. */
  async flush(options: CallOptions = {}): Promise<void> {
    const owed = this.#unflushed
    this.#unflushed = { objects: 0, bytes: 0 }
    try {
      await this.#call({ verb: 'flush' }, { ...options, expected: owed }, (each) => this.#backend.flush(each))
    } catch (error) {
      this.#unflushed.objects += owed.objects
      this.#unflushed.bytes += owed.bytes
      throw error
    }
  }

  /**
   * Writes one object, or a range of it, to a file; see {@link Backend.get}. Without the capability the object's directory is
   * hydrated for it. An object that arrives shorter than `expected.bytes` is asked for again, twice at most; what arrives
   * then is what the store holds. A missing object is `ObjectNotFoundError`.
   */
  async get(key: string, localPath: string, options: CallOptions & ByteRange & ExpectedSize = {}): Promise<void> {
    validateKey(key)
    validatePath(localPath, 'get')
    const range = validateRange(options, key)
    const backend = this.#backend
    const expected = { bytes: range.length ?? 0, ...options.expected }
    const isWhole = range.length === undefined && range.offset === undefined
    for (let attempt = 1; ; attempt++) {
      // Whatever a listing finds missing is not the object: that `get` alone can tell.
      const verb = backend.get === undefined ? 'hydrate' : 'get'
      await this.#call({ verb, key, localPath }, { ...options, expected }, async (each) =>
        backend.get === undefined
          ? getByHydrating(backend, key, localPath, { ...each, ...range })
          : backend.get(key, localPath, { ...each, ...range }),
      )
      if (!isWhole || attempt === GET_ATTEMPTS || fileSize(localPath) >= expected.bytes) return
      await pause(Math.random() * LONGEST_PAUSE_MS, options.signal, this.#clock)
    }
  }

  /**
   * Creates an object only if the key is free: true means created, false that it existed; see {@link Backend.putIfAbsent}.
   * After `OUTCOME_UNKNOWN`, or after the caller's own signal fired, read back and compare before concluding. Without the
   * capability it rejects with `UNSUPPORTED`.
   */
  async putIfAbsent(key: string, localPath: string, options: CallOptions = {}): Promise<boolean> {
    validateKey(key)
    validatePath(localPath, 'putIfAbsent')
    const backend = this.#backend
    if (backend.putIfAbsent === undefined) throw this.#unsupported('putIfAbsent', key)
    const bytes = fileSize(localPath)
    const call = { verb: 'putIfAbsent', key, localPath }
    const created = await this.#call(call, { ...options, expected: { bytes } }, async (each) =>
      backend.putIfAbsent?.(key, localPath, each),
    )
    if (typeof created !== 'boolean') throw this.#broken('putIfAbsent', 'did not answer true or false')
    if (created) this.#owe(bytes)
    return created
  }

  /**
   * Ends every running call with `CLOSED`, waits for them, and closes the backend, all bounded. Later calls reject with
   * `CLOSED`; closing again gives the same promise.
   */
  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #close(): Promise<void> {
    const running = [...this.#running]
    for (const call of running) call.stop(this.#closedError('a call'))
    await Promise.allSettled(running.map(({ promise }) => promise))
    const backend = this.#backend
    if (backend.close !== undefined) await this.#run({ verb: 'close' }, {}, async () => backend.close?.())
  }

  async #call<T>(call: Call, options: CallOptions & ExpectedSize, invoke: (each: OpOptions) => Promise<T>): Promise<T> {
    if (this.#closing !== undefined) throw this.#closedError(call.verb)
    options.signal?.throwIfAborted()
    return this.#run(call, options, invoke)
  }

  async #run<T>(call: Call, options: CallOptions & ExpectedSize, invoke: (each: OpOptions) => Promise<T>): Promise<T> {
    const context: CallContext = { ...call, store: this.name, classify: (error) => this.#backend.classify?.(error) }
    const running = startBoundedCall(
      {
        clock: this.#clock,
        deadlines: this.#deadlines,
        call: {
          expected: { objects: options.expected?.objects ?? 0, bytes: options.expected?.bytes ?? 0 },
          isUpload: call.verb.startsWith('put'),
          minRate: this.#minRate,
        },
        options,
        timedOut: (problem) => timedOut(context, problem),
        wrap: (error) => wrapError(error, context),
      },
      invoke,
    )
    this.#running.add(running)
    try {
      return await running.promise
    } finally {
      this.#running.delete(running)
    }
  }

  #owe(bytes: number): void {
    this.#unflushed.objects++
    this.#unflushed.bytes += bytes
  }

  #checkListing(objects: unknown, prefix: string): void {
    if (!Array.isArray(objects)) throw this.#broken('list', 'did not answer with an array')
    for (const object of objects as Partial<ObjectInfo>[]) {
      if (typeof object?.key !== 'string' || typeof object.size !== 'number' || !(object.size >= 0)) {
        throw this.#broken('list', 'answered with an entry without a key and a size')
      }
      if (trimKeyPrefix(object.key, prefix) === undefined) {
        throw this.#broken(
          'list',
          `of prefix "${prefix}" answered with ${JSON.stringify(object.key)}, which is not under it`,
        )
      }
    }
  }

  #broken(verb: string, problem: string): NexusError {
    const message = `backend ${this.name} breaks its contract: ${verb} ${problem}`
    return new NexusError('INTERNAL', message, { op: `objectstore.${verb}` })
  }

  #unsupported(verb: string, key: string): NexusError {
    const message = `backend ${this.name} has no ${verb}`
    return new NexusError('UNSUPPORTED', message, { op: `objectstore.${verb}`, key })
  }

  #closedError(verb: string): NexusError {
    return new NexusError('CLOSED', `${verb} on ${this.name}: the store was closed`, { op: 'objectstore.close' })
  }
}

function isName(value: unknown): boolean {
  return keyFault(value as string) === undefined && !(value as string).includes('/')
}

function timedOut(context: CallContext, problem: string): NexusError {
  const code = context.verb === 'putIfAbsent' ? 'OUTCOME_UNKNOWN' : 'UNAVAILABLE'
  const options = { op: `objectstore.${context.verb}`, ...(context.key === undefined ? {} : { key: context.key }) }
  return new NexusError(code, `${describeCall(context)} timed out: ${problem}`, options)
}

// A file that can't be looked at is reported by the driver, which has to open it anyway.
function fileSize(path: string): number {
  try {
    return statSync(path).size
  } catch {
    return 0
  }
}

function validatePath(path: string, verb: string): void {
  if (typeof path === 'string' && path !== '' && !path.includes('\0')) return
  throw new NexusError('INVALID_ARGUMENT', `${verb} needs a local path`, { op: `objectstore.${verb}` })
}

function validateRange({ offset, length }: ByteRange, key: string): ByteRange {
  for (const [name, value] of Object.entries({ offset, length })) {
    if (value !== undefined && !(Number.isSafeInteger(value) && value >= 0)) {
      throw new NexusError('INVALID_ARGUMENT', `${name} must be a whole number from 0`, { op: 'objectstore.get', key })
    }
  }
  return { ...(offset === undefined ? {} : { offset }), ...(length === undefined ? {} : { length }) }
}
