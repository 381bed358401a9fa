import { randomUUID } from 'node:crypto'
import { setMaxListeners } from 'node:events'
import {
  type CreateOutcome,
  CreateVerdicts,
  NexusError,
  type OpOptions,
  PROBE_CREATES,
  probeConditionalCreates,
  quoteKey,
} from '@nexus/objectstore'
import { blobName, type Container } from './container.ts'
import { AzureError, hasCode, mayHaveHappened } from './errors.ts'
import { createObject, isTaken } from './upload.ts'

/** How long the probe may take, in ms. */
const PROBE_MS = 20_000

/** Conditional creates. A store that is not the vendor's is seen to decide them before it is believed. */
export class ConditionalWrites {
  readonly #container: Container
  readonly #verdicts = new CreateVerdicts()

  constructor(container: Container) {
    this.#container = container
  }

  /**
   * Creates an object if its name is free. One attempt: a second would be told of the first one's own object.
   *
   * @returns whether it was created
   * @throws NexusError `OUTCOME_UNKNOWN` when it may have happened, `UNSUPPORTED` when the store ignores the condition
   */
  async create(key: string, localPath: string, options: OpOptions): Promise<boolean> {
    if (!this.#container.client.isVendor) {
      await this.#verdicts.ensure(this.#container.options.container, () => probe(this.#container), options.signal)
    }
    try {
      return await createObject(this.#container, key, localPath, options)
    } catch (error) {
      options.signal?.throwIfAborted()
      if (!mayHaveHappened(error)) throw error
      const message = `whether ${quoteKey(key)} was created is not known: ${(error as Error).message}`
      throw new NexusError('OUTCOME_UNKNOWN', message, { op: 'objectstore.putIfAbsent', key, cause: error })
    }
  }
}

async function probe(container: Container): Promise<void> {
  const { client } = container
  const name = `${blobName(container, `.nexus-probe-${randomUUID()}`)}/`
  const signal = AbortSignal.timeout(PROBE_MS)
  setMaxListeners(0, signal)
  const create = async (): Promise<CreateOutcome> => {
    try {
      await client.sendInSlot({ op: 'Put Blob', signal }, (blobs, { signal: abortSignal }) =>
        blobs.getBlockBlobClient(name).upload('', 0, { conditions: { ifNoneMatch: '*' }, abortSignal }),
      )
      return 'created'
    } catch (error) {
      if (isTaken(error)) return 'taken'
      if (error instanceof AzureError && (error.status === 409 || hasCode(error, 'ServerBusy'))) return 'conflict'
      throw error
    }
  }
  // Room for all of them: creates that wait for each other prove nothing.
  const leave = await client.slots.enterSeveral(PROBE_CREATES)
  try {
    await probeConditionalCreates(create)
  } finally {
    // What can't be removed is invisible.
    await client
      .sendInSlot({ op: 'Delete Blob', signal }, (blobs, { signal: abortSignal }) =>
        blobs.getBlobClient(name).delete({ abortSignal }),
      )
      .catch(() => undefined)
    leave()
  }
}
