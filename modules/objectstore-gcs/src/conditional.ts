import { randomUUID } from 'node:crypto'
import { setMaxListeners } from 'node:events'
import {
  type CreateOutcome,
  CreateVerdicts,
  NexusError,
  type OpOptions,
  probeConditionalCreates,
  quoteKey,
} from '@nexus/objectstore'
import { type Bucket, objectName, objectUrl, uploadUrl } from './bucket.ts'
import { classifyGcsError, GcsError, hasStatus } from './errors.ts'
import { describedObject } from './transfer/upload-job.ts'
import { createObject } from './upload.ts'

/** How long the probe may take, in ms. */
const PROBE_MS = 20_000

/** Conditional creates. A store that is not the vendor's is seen to decide them before it is believed. */
export class ConditionalWrites {
  readonly #bucket: Bucket
  readonly #verdicts = new CreateVerdicts()

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
    if (this.#bucket.options.customEndpoint) {
      await this.#verdicts.ensure(this.#bucket.options.bucket, () => probe(this.#bucket), options.signal)
    }
    try {
      return await createObject(this.#bucket, key, localPath, options)
    } catch (error) {
      options.signal?.throwIfAborted()
      if (!mayHaveHappened(error)) throw error
      const message = `whether ${quoteKey(key)} was created is not known: ${(error as Error).message}`
      throw new NexusError('OUTCOME_UNKNOWN', message, { op: 'objectstore.putIfAbsent', key, cause: error })
    }
  }
}

function mayHaveHappened(error: unknown): boolean {
  if (!(error instanceof GcsError)) return false
  const { failure } = error
  if (failure.kind === 'network') return failure.sent
  // A conflict is a refusal; what a gateway says about a backend that went silent is none.
  return failure.kind === 'answer' && failure.status !== 409 && classifyGcsError(error) === 'temporary'
}

async function probe(bucket: Bucket): Promise<void> {
  const name = `${objectName(bucket, `.nexus-probe-${randomUUID()}`)}/`
  const signal = AbortSignal.timeout(PROBE_MS)
  setMaxListeners(0, signal)
  const url = uploadUrl(bucket, { uploadType: 'media', name, ifGenerationMatch: '0' })
  const headers = { 'Content-Type': 'application/octet-stream' }
  const request = { op: 'objects.insert', method: 'POST', url, headers, body: '', signal } as const
  const create = async (): Promise<CreateOutcome> => {
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
    await probeConditionalCreates(create)
  } finally {
    // What can't be removed is invisible.
    const gone = { op: 'objects.delete', method: 'DELETE', url: objectUrl(bucket, name), signal } as const
    await bucket.client.send(gone, (answer) => answer.text()).catch(() => undefined)
  }
}
