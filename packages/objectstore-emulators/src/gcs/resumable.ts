import { json } from 'node:stream/consumers'
import { uploadBody } from '../http/index.ts'
import { ApiError, invalid } from './api-error.ts'
import type { BodyStore, BodyWriter } from './body-store.ts'
import { conditionsOf, declaredHashes, type GcsRequest, metadataOf } from './gcs-request.ts'
import type { GcsQuirks } from './quirks.ts'
import type { ObjectMetadata, ObjectTable, Preconditions, StoredObject } from './object-table.ts'

/** Chunks but the last are multiples of it, and an interrupted one keeps whole multiples only. */
const QUANTUM_BYTES = 256 * 1024

interface Session {
  bucket: string
  name: string
  metadata: ObjectMetadata
  conditions: Preconditions
  writer: BodyWriter
  state: 'open' | 'cancelled'
  /** The object, once the last byte came. */
  done?: StoredObject
}

/** What a chunk or a status query is answered with: the object, or how much of it is there. */
export type SessionAnswer = { bucket: string; object: StoredObject } | { settledBytes: number }

/** Upload sessions. @see https://cloud.google.com/storage/docs/performing-resumable-uploads */
export class ResumableUploads {
  readonly #table: ObjectTable
  readonly #bodies: BodyStore
  readonly #quirks: GcsQuirks
  readonly #sessions = new Map<string, Session>()

  constructor(table: ObjectTable, bodies: BodyStore, quirks: GcsQuirks) {
    this.#quirks = quirks
    this.#table = table
    this.#bodies = bodies
  }

  /** Sessions that were neither finished nor cancelled. */
  get open(): number {
    return [...this.#sessions.values()].filter(({ state, done }) => state === 'open' && done === undefined).length
  }

  /** The object a session is for, empty for an unknown one. */
  nameOf(query: URLSearchParams): string {
    return this.#sessions.get(query.get('upload_id') ?? '')?.name ?? ''
  }

  async start(request: GcsRequest): Promise<{ id: string; session: { name: string } }> {
    const { bucket, query, message } = request
    let given: unknown
    try {
      given = message.headers['content-length'] === '0' ? {} : await json(message)
    } catch {
      throw invalid('Parse Error')
    }
    const { name = request.name, metadata } = metadataOf(given, query)
    const conditions = conditionsOf(query)
    this.#table.admit(bucket, name, conditions)
    const contentType = message.headers['x-upload-content-type']
    if (typeof contentType === 'string') metadata.contentType ??= contentType
    const id = `session-${this.#sessions.size + 1}`
    const session: Session = { bucket, name, metadata, conditions, writer: this.#bodies.create(), state: 'open' }
    this.#sessions.set(id, session)
    return { id, session }
  }

  status(request: GcsRequest): SessionAnswer {
    const session = this.#session(request.query)
    if (session.done !== undefined) return { bucket: session.bucket, object: session.done }
    const { writer } = session
    const total = Number(/^bytes \*\/(\d+)$/.exec(request.message.headers['content-range'] ?? '')?.[1] ?? Number.NaN)
    return writer.settledBytes === total ? this.#complete(session, request) : { settledBytes: writer.settledBytes }
  }

  cancel(request: GcsRequest): void {
    const session = this.#session(request.query)
    if (session.done === undefined) session.writer.discard()
    session.state = 'cancelled'
  }

  async chunk(request: GcsRequest): Promise<SessionAnswer> {
    const session = this.#session(request.query)
    if (session.done !== undefined) return { bucket: session.bucket, object: session.done }
    const { writer } = session
    const { first, total, whole } = rangeOf(request.message.headers['content-range'])
    if (first > writer.settledBytes) {
      throw invalid(
        `Invalid request.  According to the Content-Range header, the upload offset is ${first} byte(s), ` +
          `which exceeds already uploaded size of ${writer.settledBytes} byte(s).`,
      )
    }
    let skip = writer.settledBytes - first
    try {
      for await (const bytes of uploadBody(request.message, request.faults)) {
        const fresh = bytes.subarray(Math.min(skip, bytes.length))
        skip -= bytes.length - fresh.length
        if (fresh.length > 0) writer.write(fresh, QUANTUM_BYTES)
      }
    } catch (error) {
      writer.forget()
      throw error
    }
    const lengthBytes = Number(request.message.headers['content-length'] ?? 0)
    if (this.#quirks.takesChunksForWhole === true) {
      delete session.metadata.crc32c
      writer.settle()
      return this.#complete(session, request)
    }
    const isLast = whole || first + lengthBytes === total
    if (!isLast) {
      writer.forget()
      return { settledBytes: writer.settledBytes }
    }
    writer.settle()
    return this.#complete(session, request)
  }

  #complete(session: Session, request: GcsRequest): SessionAnswer {
    const { bucket, name, writer, conditions } = session
    const metadata = { ...session.metadata, ...declaredHashes(request.message.headers) }
    session.state = 'cancelled'
    session.done = this.#table.insert(bucket, name, writer.finish(), metadata, conditions)
    session.state = 'open'
    return { bucket, object: session.done }
  }

  #session(query: URLSearchParams): Session {
    const session = this.#sessions.get(query.get('upload_id') ?? '')
    if (session === undefined) throw new ApiError(404, 'notFound', 'Not Found')
    if (session.state === 'cancelled') throw new ApiError(410, 'gone', 'Upload session is gone')
    return session
  }
}

function rangeOf(header: string | undefined): { first: number; total: number | undefined; whole: boolean } {
  // No range: the request carries everything.
  if (header === undefined) return { first: 0, total: undefined, whole: true }
  const [, first, , total] = /^bytes (\d+)-(\d+)\/(\d+|\*)$/.exec(header) ?? []
  if (first === undefined || total === undefined) throw invalid('Failed to parse Content-Range header.')
  return { first: Number(first), total: total === '*' ? undefined : Number(total), whole: false }
}
