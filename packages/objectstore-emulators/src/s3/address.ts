import type { IncomingMessage } from 'node:http'
import { Refusal } from './refusal.ts'

/** What a request is about. */
export interface Address {
  /** The vendor's name of the operation. */
  operation: string
  /** Empty for requests about all buckets. */
  bucket: string
  /** Empty for requests about a bucket. */
  key: string
  query: URLSearchParams
  /** The path as it was sent, for the signature. */
  rawPath: string
}

/** Reads the address, with the bucket in the host name or in the path. */
export function addressOf(request: IncomingMessage): Address {
  const url = request.url ?? '/'
  const mark = url.indexOf('?')
  const rawPath = mark < 0 ? url : url.slice(0, mark)
  // A plus is a plus in a path, and a space in a query.
  const query = new URLSearchParams(mark < 0 ? '' : url.slice(mark + 1))
  const path = decodePath(rawPath)
  const hosted = bucketOfHost(request.headers.host ?? '')
  const slash = path.indexOf('/', 1)
  const bucket = hosted ?? (slash < 0 ? path.slice(1) : path.slice(1, slash))
  const key = hosted === undefined ? (slash < 0 ? '' : path.slice(slash + 1)) : path.slice(1)
  return { operation: operationOf(request.method ?? 'GET', bucket, key, query, request), bucket, key, query, rawPath }
}

function decodePath(rawPath: string): string {
  try {
    return decodeURIComponent(rawPath)
  } catch {
    throw new Refusal(400, 'InvalidURI', "Couldn't parse the specified URI.")
  }
}

function bucketOfHost(host: string): string | undefined {
  const name = host.replace(/:\d+$/, '')
  return /^(.+)\.(?:s3[.-][a-z0-9.-]*amazonaws\.com|s3\.test)$/.exec(name)?.[1]
}

const OBJECT_OPERATIONS: Readonly<Record<string, string>> = {
  PUT: 'PutObject',
  GET: 'GetObject',
  HEAD: 'HeadObject',
  DELETE: 'DeleteObject',
}

const UPLOAD_OPERATIONS: Readonly<Record<string, string>> = {
  PUT: 'UploadPart',
  GET: 'ListParts',
  POST: 'CompleteMultipartUpload',
  DELETE: 'AbortMultipartUpload',
}

function operationOf(
  method: string,
  bucket: string,
  key: string,
  query: URLSearchParams,
  request: IncomingMessage,
): string {
  if (bucket === '') return 'ListBuckets'
  if (key !== '') {
    if (query.has('uploadId')) return UPLOAD_OPERATIONS[method] ?? method
    if (method === 'POST' && query.has('uploads')) return 'CreateMultipartUpload'
    if (method === 'PUT' && request.headers['x-amz-copy-source'] !== undefined) return 'CopyObject'
    return OBJECT_OPERATIONS[method] ?? method
  }
  if (method === 'PUT') return 'CreateBucket'
  if (method === 'HEAD') return 'HeadBucket'
  if (method === 'POST' && query.has('delete')) return 'DeleteObjects'
  if (query.has('uploads')) return 'ListMultipartUploads'
  if (query.has('location')) return 'GetBucketLocation'
  return query.get('list-type') === '2' ? 'ListObjectsV2' : 'ListObjects'
}
