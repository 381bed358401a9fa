import { randomUUID } from 'node:crypto'
import { setMaxListeners } from 'node:events'
import { NexusError, type OpOptions, quoteKey, untilAborted } from '@nexus/objectstore'
import { type Bucket, objectName, objectUrl, uploadUrl } from './bucket.ts'
import { classifyGcsError, GcsError, hasStatus } from './errors.ts'
import { describedObject } from './transfer/upload-job.ts'
import { createObject } from './upload.ts'

/** Creates of one name at once. A store that looks first and writes then lets several of so many win. */
const PROBE_CREATES = 8
/** How long the probe may take, in ms. */
const PROBE_MS = 20_000

/** Conditional creates. A store that is not the vendor's is seen to decide them before it is believed. */
export class ConditionalWrites {
  readonly #bucket: Bucket
  #verdict: Promise<void> | undefined

  constructor(bucket: Bucket) {
    this.#bucket = bucket
  }

  /**
   * Creates an object if its name is free. One attempt: a second would be told of the first one's own object.
   *
   * @returns whether it was created
   * @throws NexusError `OUTCOME_UNKNOWN` when it may have happened, `UNSUPPORTED` when the store ignores the condition
   */
  async create(key: string, localPath: string, options: OpOptions): Promise<boolean> {
    if (this.#bucket.options.customEndpoint) await this.#ensureCapable(options.signal)
    try {
      return await createObject(this.#bucket, key, localPath, options)
    } catch (error) {
      options.signal?.throwIfAborted()
      if (!mayHaveHappened(error)) throw error
      const message = `whether ${quoteKey(key)} was created is not known: ${(error as Error).message}`
      throw new NexusError('OUTCOME_UNKNOWN', message, { op: 'objectstore.putIfAbsent', key, cause: error })
    }
  }

  async #ensureCapable(signal: AbortSignal | undefined): Promise<void> {
    // Shared by all who wait for it, so it does not hang on the signal of the first.
    this.#verdict ??= probe(this.#bucket).catch((error: unknown) => {
      if (!(error instanceof NexusError && error.code === 'UNSUPPORTED')) this.#verdict = undefined
      throw error
    })
    const verdict = this.#verdict
    // Whoever waits for it may have gone by then.
    verdict.catch(() => undefined)
    await untilAborted(verdict, signal)
  }
}

function mayHaveHappened(error: unknown): boolean {
  if (!(error instanceof GcsError)) return false
  const { failure } = error
  if (failure.kind === 'network') return failure.sent
  // A conflict is a refusal; what a gateway says about a backend that went silent is none.
  return failure.kind === 'answer' && failure.status !== 409 && classifyGcsError(error) === 'temporary'
}

/**
 * Lets many create one name at once and demands exactly one winner. The name has the form of a folder placeholder, which
 * listings and hydration leave out, should the probe be killed before it removes it.
 */
async function probe(bucket: Bucket): Promise<void> {
  const name = `${objectName(bucket, `.nexus-probe-${randomUUID()}`)}/`
  const signal = AbortSignal.timeout(PROBE_MS)
  setMaxListeners(0, signal)
  const url = uploadUrl(bucket, { uploadType: 'media', name, ifGenerationMatch: '0' })
  const headers = { 'Content-Type': 'application/octet-stream' }
  const request = { op: 'objects.insert', method: 'POST', url, headers, body: '', signal } as const
  const create = async (): Promise<'created' | 'taken' | 'conflict'> => {
    try {
      await bucket.client.send(request, (answer) => describedObject(answer, request.op))
      return 'created'
    } catch (error) {
      if (hasStatus(error, 412)) return 'taken'
      if (hasStatus(error, 409, 429)) return 'conflict'
      throw error
    }
  }
  try {
    const settled = await Promise.allSettled(Array.from({ length: PROBE_CREATES }, create))
    const answers = settled.map((each) => {
      if (each.status === 'rejected') throw each.reason
      return each.value
    })
    const created = answers.filter((answer) => answer === 'created').length
    if (created > 1 || (created === 1 && (await create()) === 'created')) {
      const message = `the store let ${created} of ${PROBE_CREATES} create one name: it does not decide conditional creates`
      throw new NexusError('UNSUPPORTED', message, { op: 'objectstore.putIfAbsent' })
    }
    if (created === 0) {
      const message = 'the store answered every conditional create with a conflict'
      throw new NexusError('UNAVAILABLE', message, { op: 'objectstore.putIfAbsent' })
    }
  } finally {
    // What can't be removed is invisible.
    const gone = { op: 'objects.delete', method: 'DELETE', url: objectUrl(bucket, name), signal } as const
    await bucket.client.send(gone, (answer) => answer.text()).catch(() => undefined)
  }
}
