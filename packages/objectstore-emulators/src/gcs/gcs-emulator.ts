import type { IncomingMessage, ServerResponse } from 'node:http'
import { FaultPlan } from '../faults/index.ts'
import {
  delayOf,
  isLostAnswer,
  isSilent,
  loseConnection,
  openLoopbackServer,
  statusOf,
  stayInSilence,
} from '../http/index.ts'
import { ApiError, sendError } from './api-error.ts'
import { BodyStore } from './body-store.ts'
import { sendObject } from './download.ts'
import { conditionsOf, type GcsRequest, numberOf, routeRequest } from './gcs-request.ts'
import { insertObject } from './insert.ts'
import { listObjects } from './list.ts'
import { objectResource } from './object-resource.ts'
import { ObjectTable } from './object-table.ts'
import type { GcsQuirks } from './quirks.ts'
import { ResumableUploads, type SessionAnswer } from './resumable.ts'

/** What a bearer token is worth: `denied` is a known caller without the right. */
export type TokenVerdict = 'accepted' | 'invalid' | 'denied'

export interface GcsEmulatorOptions {
  /** Buckets that exist from the start. */
  buckets?: readonly string[]
  /** Default: the time of day. */
  now?: () => number
  /** Largest page of a listing, default 1000. */
  pageSize?: number
  /** Least time between two writes of one name, in ms; default 0: no limit. The vendor documents about 1000. */
  rewriteIntervalMs?: number
  /** How long listings lag behind writes, in ms; default 0. */
  listingLagMs?: number
  /** Judges the bearer token of each request, undefined without one; default: all are accepted. */
  judge?: (token: string | undefined) => TokenVerdict
  /** `discard` keeps sizes and checksums only, and downloads give zeros. */
  bodies?: 'keep' | 'discard'
  /** PEM texts: serve https. */
  tls?: { key: string; cert: string }
}

/** A running emulator of the JSON API. */
export interface GcsEmulator {
  /** `http://127.0.0.1:PORT`, no slash at the end; https where that was wanted. */
  url: string
  faults: FaultPlan
  quirks: GcsQuirks
  /** Served requests, oldest first, as `operation key`. */
  log: readonly string[]
  createBucket(name: string): void
  deleteBucket(name: string): void
  /** Resumable uploads that were neither finished nor cancelled. */
  openUploads(): number
  /** Drops every connection and removes all bodies. */
  close(): Promise<void>
}

/**
 * Serves buckets over the JSON API on loopback.
 *
 * @see https://cloud.google.com/storage/docs/json_api/v1
 */
export async function openGcsEmulator(options: GcsEmulatorOptions = {}): Promise<GcsEmulator> {
  const { buckets = [], now = () => Date.now(), rewriteIntervalMs = 0, listingLagMs = 0, bodies = 'keep' } = options
  const faults = new FaultPlan()
  const quirks: GcsQuirks = {}
  const store = new BodyStore(bodies)
  const table = new ObjectTable(store, { now, rewriteIntervalMs, listingLagMs })
  for (const bucket of buckets) table.createBucket(bucket)
  const uploads = new ResumableUploads(table, store, quirks)
  const log: string[] = []
  const judge = options.judge ?? ((): TokenVerdict => 'accepted')

  const serve = async (request: GcsRequest, response: ServerResponse): Promise<void> => {
    const { operation, bucket, name, query } = request
    const conditions = conditionsOf(query)
    const answer = (status: number, body: unknown): void => sendJson(request, response, status, body)
    switch (operation) {
      case 'objects.insert':
        return answer(200, objectResource(bucket, await insertObject(table, store, request)))
      case 'objects.get':
        return answer(200, objectResource(bucket, table.get(bucket, name, conditions, numberOf(query, 'generation'))))
      case 'objects.download':
        return sendObject(
          store,
          table.get(bucket, name, conditions, numberOf(query, 'generation')),
          request,
          response,
          quirks,
        )
      case 'objects.list':
        return answer(200, listObjects(table, bucket, query, options.pageSize ?? 1000, quirks))
      case 'objects.delete':
        table.delete(bucket, name, conditions)
        return answer(204, undefined)
      case 'uploads.start': {
        const { id } = await uploads.start(request)
        const location = `${server.url}/upload/storage/v1/b/${encodeURIComponent(bucket)}/o?uploadType=resumable&upload_id=${id}`
        return sendJson(request, response, 200, undefined, { location, 'x-guploader-uploadid': id })
      }
      case 'uploads.chunk':
        return sendSession(request, response, await uploads.chunk(request))
      case 'uploads.status':
        return sendSession(request, response, uploads.status(request))
      case 'uploads.cancel':
        uploads.cancel(request)
        return answer(499, undefined)
    }
  }

  const handle = async (message: IncomingMessage, response: ServerResponse): Promise<void> => {
    // A long body waits for room many times.
    response.setMaxListeners(0)
    const routed = routeRequest(message)
    if (routed === undefined) return sendError(response, new ApiError(404, 'notFound', 'Not Found'), false)
    if (quirks.ignoresConditions === true) {
      const conditions = [...routed.query.keys()].filter((name) => name.startsWith('if'))
      for (const name of conditions) routed.query.delete(name)
    }
    const key = routed.name === '' ? uploads.nameOf(routed.query) : routed.name
    log.push(`${routed.operation} ${key}`)
    const request: GcsRequest = { ...routed, faults: faults.take({ operation: routed.operation, key }) }
    await delayOf(request.faults)
    if (isSilent(request.faults)) return stayInSilence(message)
    try {
      const refusal = statusOf(request.faults)
      if (refusal !== undefined) {
        const headers = refusal.headers ?? {}
        throw new ApiError(refusal.status, refusal.code, `emulated ${refusal.code}`, headers)
      }
      checkToken(judge, request)
      await serve(request, response)
    } catch (error) {
      if (!(error instanceof ApiError)) throw error
      sendError(response, error, request.media)
    }
  }
  const server = await openLoopbackServer(handle, options.tls === undefined ? {} : { tls: options.tls })
  return {
    url: server.url,
    faults,
    quirks,
    log,
    createBucket: (name) => table.createBucket(name),
    deleteBucket: (name) => table.deleteBucket(name),
    openUploads: () => uploads.open,
    close: async () => {
      await server.close()
      store.close()
    },
  }
}

function checkToken(judge: (token: string | undefined) => TokenVerdict, { message, bucket }: GcsRequest): void {
  const token = /^Bearer (.+)$/i.exec(message.headers.authorization ?? '')?.[1]
  const verdict = judge(token)
  if (verdict === 'denied') {
    const text = `Caller does not have storage.objects.get access to the Google Cloud Storage bucket ${bucket}.`
    throw new ApiError(403, 'forbidden', text)
  }
  if (verdict === 'accepted') return
  const challenge = { 'www-authenticate': 'Bearer realm="https://accounts.google.com/", error="invalid_token"' }
  if (token !== undefined) throw new ApiError(401, 'authError', 'Invalid Credentials', challenge)
  const text = `Anonymous caller does not have storage.objects.get access to the Google Cloud Storage bucket ${bucket}.`
  throw new ApiError(401, 'required', text, challenge)
}

function sendJson(
  request: GcsRequest,
  response: ServerResponse,
  status: number,
  body: unknown,
  headers: Record<string, string> = {},
): void {
  if (isLostAnswer(request.faults)) loseConnection(request.message)
  const text = body === undefined ? '' : JSON.stringify(body)
  const type = body === undefined ? {} : { 'content-type': 'application/json; charset=UTF-8' }
  // A 204 has no length.
  const length = status === 204 ? {} : { 'content-length': Buffer.byteLength(text) }
  response.writeHead(status, { ...type, ...length, ...headers })
  response.end(text)
}

function sendSession(request: GcsRequest, response: ServerResponse, answer: SessionAnswer): void {
  if ('object' in answer) {
    sendJson(request, response, 200, objectResource(answer.bucket, answer.object))
    return
  }
  const { settledBytes } = answer
  const range = settledBytes === 0 ? {} : { range: `bytes=0-${settledBytes - 1}` }
  sendJson(request, response, 308, undefined, range)
}
