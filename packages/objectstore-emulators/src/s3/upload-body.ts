import { createHash } from 'node:crypto'
import { uploadBody } from '../http/index.ts'
import { decodeAwsChunked } from './aws-chunked.ts'
import type { Extent } from './body-store.ts'
import { type Checksum, checksumAlgorithms } from './checksums.ts'
import type { Exchange } from './exchange.ts'
import { Refusal } from './refusal.ts'

/** A body that has arrived whole and matches every checksum that came with it. */
export interface ReceivedBody {
  extent: Extent
  /** Hex. */
  md5: string
  /** The verified checksums by their header's name. */
  checksums: Record<string, string>
}

const HEADER = 'x-amz-checksum-'

/** Stores the body of an upload and verifies it. */
export async function receiveBody({ request, faults, quirks, bodies }: Exchange): Promise<ReceivedBody> {
  const payload = one(request.headers['x-amz-content-sha256'])
  const framed = payload.startsWith('STREAMING-') && quirks.keepsChunkFraming !== true
  const sums = expectedSums(request.headers)
  if (quirks.demandsChecksums === true && sums.size === 0 && request.headers['content-md5'] === undefined) {
    const demand = 'Content-MD5 OR x-amz-checksum- HTTP header is required for Put Object requests with Object Lock'
    throw new Refusal(400, 'InvalidRequest', `${demand} parameters`)
  }
  const trailers = new Map<string, string>()
  const raw = uploadBody(request, faults)
  const md5 = createHash('md5')
  const sha256 = /^[0-9a-f]{64}$/.test(payload) ? createHash('sha256') : undefined
  const extent = await bodies.write(framed ? decodeAwsChunked(raw, trailers) : raw, (chunk) => {
    md5.update(chunk)
    sha256?.update(chunk)
    for (const { sum } of sums.values()) sum.update(chunk)
  })
  if (sha256 !== undefined && sha256.digest('hex') !== payload) {
    throw new Refusal(400, 'XAmzContentSHA256Mismatch', "The provided 'x-amz-content-sha256' header does not match.")
  }
  const decodedLength = request.headers['x-amz-decoded-content-length']
  if (framed && decodedLength !== undefined && Number(decodedLength) !== extent.sizeBytes) {
    throw new Refusal(400, 'IncompleteBody', 'You did not provide the number of bytes specified.')
  }
  const digest = md5.digest()
  const contentMd5 = request.headers['content-md5']
  if (contentMd5 !== undefined && contentMd5 !== digest.toString('base64')) throw badDigest('Content-MD5')
  const checksums: Record<string, string> = {}
  for (const [name, { sum, header }] of sums) {
    const expected = header ?? trailers.get(name)
    const actual = sum.digest()
    if (quirks.keepsChunkFraming !== true && expected !== actual) throw badDigest(name)
    checksums[name] = actual
  }
  return { extent, md5: digest.toString('hex'), checksums }
}

function expectedSums(headers: NodeJS.Dict<string | string[]>): Map<string, { sum: Checksum; header?: string }> {
  const sums = new Map<string, { sum: Checksum; header?: string }>()
  const announced = one(headers['x-amz-trailer']).split(',')
  for (const [algorithm, start] of Object.entries(checksumAlgorithms)) {
    const name = HEADER + algorithm
    const header = headers[name]
    if (header !== undefined) sums.set(name, { sum: start(), header: one(header) })
    else if (announced.includes(name)) sums.set(name, { sum: start() })
  }
  return sums
}

function one(value: string | string[] | undefined): string {
  return Array.isArray(value) ? value.join(',') : (value ?? '')
}

function badDigest(name: string): Refusal {
  return new Refusal(400, 'BadDigest', `The ${name} you specified did not match the calculated checksum.`)
}
