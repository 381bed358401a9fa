import { ApiError, conditionNotMet, invalid, noSuchBucket, noSuchObject, rateLimited } from './api-error.ts'
import type { BodyStore, StoredBody } from './body-store.ts'

/** What a client may say about a new object. */
export interface ObjectMetadata {
  contentType?: string
  contentEncoding?: string
  storageClass?: string
  kmsKeyName?: string
  crc32c?: string
  md5Hash?: string
}

/** One live object. */
export interface StoredObject {
  name: string
  generation: number
  metageneration: number
  updatedMs: number
  metadata: ObjectMetadata
  body: StoredBody
}

/** Preconditions of a request. Absent ones hold. */
export interface Preconditions {
  ifGenerationMatch?: number
  ifGenerationNotMatch?: number
  ifMetagenerationMatch?: number
}

interface Bucket {
  objects: Map<string, StoredObject>
  /** Deleted objects that a lagging listing still shows. */
  ghosts: { object: StoredObject; untilMs: number }[]
  mutatedAtMs: Map<string, number>
}

export interface ObjectTableOptions {
  now: () => number
  /** Least time between two writes of one name; 0: no limit. */
  rewriteIntervalMs: number
  /** How long a listing lags behind writes. */
  listingLagMs: number
}

const MAX_NAME_BYTES = 1024

/** The buckets. Every method decides and applies in one step, so that concurrent requests see one order. */
export class ObjectTable {
  readonly #buckets = new Map<string, Bucket>()
  readonly #bodies: BodyStore
  readonly #options: ObjectTableOptions
  #generation = 1_700_000_000_000_000

  constructor(bodies: BodyStore, options: ObjectTableOptions) {
    this.#bodies = bodies
    this.#options = options
  }

  createBucket(name: string): void {
    if (!this.#buckets.has(name)) {
      this.#buckets.set(name, { objects: new Map(), ghosts: [], mutatedAtMs: new Map() })
    }
  }

  deleteBucket(name: string): void {
    for (const { body } of this.#buckets.get(name)?.objects.values() ?? []) this.#bodies.remove(body)
    this.#buckets.delete(name)
  }

  /** The object, or the error of its absence. A generation other than the live one is absent. */
  get(bucket: string, name: string, conditions: Preconditions, generation?: number): StoredObject {
    const object = this.#bucket(bucket).objects.get(name)
    if (object === undefined) throw noSuchObject(bucket, name)
    if (generation !== undefined && generation !== object.generation) throw noSuchObject(bucket, name)
    checkConditions(object, conditions)
    return object
  }

  /** What an upload must pass before its bytes are taken. */
  admit(bucket: string, name: string, conditions: Preconditions): void {
    const { objects } = this.#bucket(bucket)
    checkName(name)
    checkConditions(objects.get(name), conditions)
  }

  /** Makes a body the object's content. A refused body is removed. */
  insert(
    bucket: string,
    name: string,
    body: StoredBody,
    metadata: ObjectMetadata,
    conditions: Preconditions,
  ): StoredObject {
    try {
      this.admit(bucket, name, conditions)
      checkHash('CRC32C', metadata.crc32c, body.crc32c)
      if (body.md5 !== undefined) checkHash('MD5 hash', metadata.md5Hash, body.md5)
      this.#countMutation(bucket, name)
    } catch (error) {
      this.#bodies.remove(body)
      throw error
    }
    const { objects } = this.#bucket(bucket)
    const replaced = objects.get(name)
    const generation = ++this.#generation
    const object = { name, generation, metageneration: 1, updatedMs: this.#options.now(), metadata, body }
    objects.set(name, object)
    if (replaced !== undefined) this.#bodies.remove(replaced.body)
    return object
  }

  delete(bucket: string, name: string, conditions: Preconditions): void {
    const object = this.get(bucket, name, conditions)
    this.#countMutation(bucket, name)
    const { objects, ghosts } = this.#bucket(bucket)
    objects.delete(name)
    const { listingLagMs, now } = this.#options
    if (listingLagMs > 0) ghosts.push({ object, untilMs: now() + listingLagMs })
    this.#bodies.remove(object.body)
  }

  /** What a listing shows now, in byte order of the names. */
  listed(bucket: string, prefix: string): StoredObject[] {
    const { objects, ghosts } = this.#bucket(bucket)
    const { now, listingLagMs } = this.#options
    const nowMs = now()
    const shown = new Map<string, StoredObject>()
    for (const { object, untilMs } of ghosts) if (untilMs > nowMs) shown.set(object.name, object)
    for (const object of objects.values()) {
      if (listingLagMs === 0 || object.updatedMs + listingLagMs <= nowMs) shown.set(object.name, object)
    }
    return [...shown.values()]
      .filter(({ name }) => name.startsWith(prefix))
      .toSorted((a, b) => Buffer.compare(Buffer.from(a.name), Buffer.from(b.name)))
  }

  #bucket(name: string): Bucket {
    const bucket = this.#buckets.get(name)
    if (bucket === undefined) throw noSuchBucket()
    return bucket
  }

  #countMutation(bucket: string, name: string): void {
    const { rewriteIntervalMs, now } = this.#options
    if (rewriteIntervalMs === 0) return
    const { mutatedAtMs } = this.#bucket(bucket)
    const lastMs = mutatedAtMs.get(name)
    if (lastMs !== undefined && now() < lastMs + rewriteIntervalMs) throw rateLimited(bucket, name)
    mutatedAtMs.set(name, now())
  }
}

function checkName(name: string): void {
  const bytes = Buffer.byteLength(name)
  if (bytes === 0) throw new ApiError(400, 'required', 'Required')
  if (bytes > MAX_NAME_BYTES)
    throw invalid(`The maximum object length is ${MAX_NAME_BYTES} characters, but got a name with ${bytes} characters.`)
  const reserved = name === '.' || name === '..' || name.startsWith('.well-known/acme-challenge/')
  if (reserved || /[\r\n]/.test(name)) throw invalid(`Disallowed unicode characters present in object name '${name}'`)
}

function checkConditions(object: StoredObject | undefined, conditions: Preconditions): void {
  const { ifGenerationMatch, ifGenerationNotMatch, ifMetagenerationMatch } = conditions
  const generation = object?.generation ?? 0
  const fails =
    (ifGenerationMatch !== undefined && ifGenerationMatch !== generation) ||
    (ifGenerationNotMatch !== undefined && ifGenerationNotMatch === generation) ||
    (ifMetagenerationMatch !== undefined && ifMetagenerationMatch !== object?.metageneration)
  if (fails) throw conditionNotMet()
}

function checkHash(what: string, declared: string | undefined, actual: string): void {
  if (declared === undefined || declared === actual) return
  throw invalid(`Provided ${what} "${declared}" doesn't match calculated ${what} "${actual}".`)
}
