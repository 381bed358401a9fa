import { randomUUID } from 'node:crypto'
import { setMaxListeners } from 'node:events'
import { DeleteObjectCommand, PutObjectCommand } from '@aws-sdk/client-s3'
import {
  type CreateOutcome,
  joinKey,
  NexusError,
  type OpOptions,
  PROBE_CREATES,
  probeConditionalCreates,
  quoteKey,
} from '@nexus/objectstore'
import type { Connection } from './client/connection.ts'
import { mayHaveHappened, S3RequestError, unexpectedAnswer } from './errors.ts'
import { createObject } from './upload.ts'

/** Conditional creates, once the store was seen to decide them. */
export class ConditionalWrites {
  readonly #connection: Connection

  constructor(connection: Connection) {
    this.#connection = connection
  }

  /**
   * Creates the object if the key is free, in one attempt. Gives whether it was.
   *
   * @throws NexusError `UNSUPPORTED` when the store ignores the condition, `OUTCOME_UNKNOWN` when the answer was lost
   */
  async create(key: string, localPath: string, options: OpOptions): Promise<boolean> {
    const { verdicts, options: store } = this.#connection
    await verdicts.ensure(store.bucket, () => probe(this.#connection), options.signal)
    try {
      await createObject(this.#connection, key, localPath, options)
      return true
    } catch (error) {
      if (isTaken(error)) return false
      if (mayHaveHappened(error)) {
        const detail = error instanceof Error ? error.message : String(error)
        const message = `the answer to putIfAbsent of ${quoteKey(key)} was lost, so it may have been created: ${detail}`
        throw new NexusError('OUTCOME_UNKNOWN', message, { op: 'objectstore.putIfAbsent', key, cause: error })
      }
      throw error
    }
  }
}

/** Of no bytes. */
const EMPTY_MD5 = '1B2M2Y8AsgTpgAmY7PhCfg=='

/** How long the probe may take, in ms. */
const PROBE_MS = 20_000

async function probe(connection: Connection): Promise<void> {
  const { bucket, prefix, checksums } = connection.options
  const target = { Bucket: bucket, Key: `${joinKey(prefix, `.nexus-probe-${randomUUID()}`)}/` }
  const digest = checksums === 'content_md5' ? { ContentMD5: EMPTY_MD5 } : {}
  // Room for all of them: creates that wait for each other prove nothing.
  const leave = await connection.slots.enterSeveral(PROBE_CREATES)
  const signal = AbortSignal.timeout(PROBE_MS)
  setMaxListeners(0, signal)
  const create = async (): Promise<CreateOutcome> => {
    try {
      const context = { operation: 'PutObject', key: target.Key, signal }
      const { ETag } = await connection.sendOnce(context, (client, each) =>
        client.send(new PutObjectCommand({ ...target, ...digest, Body: Buffer.alloc(0), IfNoneMatch: '*' }), each),
      )
      if (ETag === undefined) throw unexpectedAnswer('PutObject', target.Key, 'ETag')
      return 'created'
    } catch (error) {
      if (isTaken(error)) return 'taken'
      if (error instanceof S3RequestError && error.status === 409) return 'conflict'
      if (error instanceof S3RequestError && error.status === 501) throw refusedCondition(error)
      if (signal.aborted) {
        const message = `the store did not say within ${PROBE_MS} ms whether it decides conditional creates`
        throw new NexusError('UNAVAILABLE', message, { op: 'objectstore.putIfAbsent', cause: error })
      }
      throw error
    }
  }
  try {
    await probeConditionalCreates(create)
  } finally {
    // What can't be removed is invisible.
    await connection
      .sendOnce({ operation: 'DeleteObject', key: target.Key, signal }, (client, each) =>
        client.send(new DeleteObjectCommand(target), each),
      )
      .catch(() => undefined)
    leave()
  }
}

function isTaken(error: unknown): boolean {
  return error instanceof S3RequestError && error.status === 412
}

function refusedCondition(cause: unknown): NexusError {
  const message = 'the store does not decide conditional creates (If-None-Match): it refuses the condition'
  return new NexusError('UNSUPPORTED', message, { op: 'objectstore.putIfAbsent', cause })
}
