import type { IncomingMessage } from 'node:http'
import type { Fault } from '../faults/fault-plan.ts'
import { invalid } from './api-error.ts'
import type { ObjectMetadata, Preconditions } from './object-table.ts'

/** The operations that are served, as fault rules name them. */
export type GcsOperation =
  | 'objects.insert'
  | 'objects.get'
  | 'objects.download'
  | 'objects.list'
  | 'objects.delete'
  | 'uploads.start'
  | 'uploads.chunk'
  | 'uploads.status'
  | 'uploads.cancel'

/** One request, taken apart. */
export interface GcsRequest {
  operation: GcsOperation
  bucket: string
  /** Empty where the operation has none, or where only the body says it. */
  name: string
  query: URLSearchParams
  message: IncomingMessage
  faults: readonly Fault[]
  /** Whether the answer of a failure is text. */
  media: boolean
}

const OBJECTS = /^\/(upload\/|download\/)?storage\/v1\/b\/([^/]+)\/o(?:\/([^/]+))?$/

/** Finds out what a request is about; undefined for what is not served. */
export function routeRequest(message: IncomingMessage): Omit<GcsRequest, 'faults'> | undefined {
  const url = new URL(message.url ?? '/', 'http://loopback')
  const match = OBJECTS.exec(url.pathname)
  if (match === null) return undefined
  const query = url.searchParams
  const bucket = decodeURIComponent(match[2] as string)
  const name = match[3] === undefined ? (query.get('name') ?? '') : decodeURIComponent(match[3])
  const operation = operationOf(
    message,
    match[1] === 'upload/',
    match[3] !== undefined,
    query,
    match[1] === 'download/',
  )
  return operation === undefined
    ? undefined
    : { operation, bucket, name, query, message, media: operation === 'objects.download' }
}

function operationOf(
  message: IncomingMessage,
  upload: boolean,
  named: boolean,
  query: URLSearchParams,
  download: boolean,
): GcsOperation | undefined {
  const { method } = message
  if (upload) {
    if (query.has('upload_id')) return sessionOperation(message)
    if (method !== 'POST') return undefined
    return query.get('uploadType') === 'resumable' ? 'uploads.start' : 'objects.insert'
  }
  if (method === 'GET' && named) return download || query.get('alt') === 'media' ? 'objects.download' : 'objects.get'
  if (method === 'GET') return 'objects.list'
  return method === 'DELETE' && named ? 'objects.delete' : undefined
}

function sessionOperation({ method, headers }: IncomingMessage): GcsOperation | undefined {
  if (method === 'DELETE') return 'uploads.cancel'
  if (method !== 'PUT' && method !== 'POST') return undefined
  return headers['content-range']?.startsWith('bytes */') === true ? 'uploads.status' : 'uploads.chunk'
}

const CONDITIONS = ['ifGenerationMatch', 'ifGenerationNotMatch', 'ifMetagenerationMatch'] as const

/** The preconditions of the query. */
export function conditionsOf(query: URLSearchParams): Preconditions {
  const conditions: Preconditions = {}
  for (const name of CONDITIONS) {
    const value = query.get(name)
    if (value !== null) conditions[name] = wholeNumber(name, value)
  }
  return conditions
}

/** A parameter that must be a whole number; undefined when it is absent. */
export function numberOf(query: URLSearchParams, name: string): number | undefined {
  const value = query.get(name)
  return value === null ? undefined : wholeNumber(name, value)
}

function wholeNumber(name: string, value: string): number {
  if (!/^\d+$/.test(value)) throw invalid(`Invalid value for ${name}: ${value}`)
  return Number(value)
}

const STRINGS = ['contentType', 'contentEncoding', 'storageClass', 'kmsKeyName', 'crc32c', 'md5Hash'] as const

/** The metadata a client sent as JSON, with what it said in the query. */
export function metadataOf(json: unknown, query: URLSearchParams): { name?: string; metadata: ObjectMetadata } {
  const given = (json ?? {}) as Record<string, unknown>
  const metadata: ObjectMetadata = {}
  for (const field of STRINGS) {
    const value = given[field] ?? query.get(field) ?? undefined
    if (typeof value === 'string') metadata[field] = value
  }
  return { ...(typeof given['name'] === 'string' ? { name: given['name'] } : {}), metadata }
}

/** `x-goog-hash` and `content-md5` as metadata. */
export function declaredHashes(headers: IncomingMessage['headers']): ObjectMetadata {
  const hashes: ObjectMetadata = {}
  for (const part of String(headers['x-goog-hash'] ?? '').split(',')) {
    const [, kind, value] = /^\s*(crc32c|md5)=(\S+)\s*$/.exec(part) ?? []
    if (kind === 'crc32c' && value !== undefined) hashes.crc32c = value
    if (kind === 'md5' && value !== undefined) hashes.md5Hash = value
  }
  if (typeof headers['content-md5'] === 'string') hashes.md5Hash = headers['content-md5']
  return hashes
}
