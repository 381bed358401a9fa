import { type Logger, NexusError } from '@nexus/objectstore'
import type { FsOptions } from '../options.ts'
import type { WorkerInternals } from './protocol.ts'
import { WorkerClient } from './client.ts'

/** A share in a bucket's worker. */
export interface WorkerLease {
  /** As {@link WorkerClient.call}; rejects with `CLOSED` once the share was given back. */
  readonly call: WorkerClient['call']
  /** Gives the share back; the last one ends the worker. Again gives the same promise. */
  release(): Promise<void>
}

interface Shared {
  client: WorkerClient
  leases: number
}

/** Workers by bucket and settings: a thousand sessions on one bucket need one thread, and a dead mount hangs only its own. */
const shared = new Map<string, Shared>()

/** A share in the worker of this bucket, started when it is first needed. */
export function acquireWorker(options: FsOptions, logger: Logger, internals?: WorkerInternals): WorkerLease {
  if (internals !== undefined) {
    const client = new WorkerClient(options, logger, internals)
    return leaseOf(client, () => client.close())
  }
  // Backends that differ in their prefix only share: the prefix is part of each call.
  const name = JSON.stringify({ ...options, prefix: '', requireMount: false })
  let entry = shared.get(name)
  if (entry === undefined) shared.set(name, (entry = { client: new WorkerClient(options, logger), leases: 0 }))
  entry.leases++
  const { client } = entry
  return leaseOf(client, async () => {
    if (--entry.leases > 0) return
    if (shared.get(name) === entry) shared.delete(name)
    await client.close()
  })
}

function leaseOf(client: WorkerClient, giveBack: () => Promise<void>): WorkerLease {
  let released: Promise<void> | undefined
  return {
    call: async (operation, options) => {
      if (released !== undefined) throw new NexusError('CLOSED', `${operation.op}: the fs backend was closed`)
      return client.call(operation, options)
    },
    release: () => (released ??= giveBack()),
  }
}
