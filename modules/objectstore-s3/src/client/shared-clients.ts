import { statSync } from 'node:fs'
import { CreateVerdicts, Slots } from '@nexus/objectstore'
import { type Clients, createClients } from './client.ts'
import { chainProvider, CredentialSource, fileProvider } from './credentials.ts'
import type { S3Options } from '../options.ts'

/** What backends of one store and one set of credentials share, whatever their bucket. */
export interface SharedClients {
  readonly clients: Clients
  readonly credentials: CredentialSource
  /** Requests in flight. A download stays inside until its body has arrived. */
  readonly slots: Slots
  /** Whether the store decides conditional creates, by bucket. */
  readonly verdicts: CreateVerdicts
}

/** A share in clients. */
export interface ClientsLease {
  readonly shared: SharedClients
  /** Gives the share back, once; the last one closes the sockets. */
  release(): void
}

interface Entry {
  shared: Promise<SharedClients>
  leases: number
}

/** A thousand sessions on one store need one pool of sockets and one set of credentials. */
const entries = new Map<string, Entry>()

/**
 * A share in the clients for these options. No request is sent.
 *
 * @throws NexusError `INVALID_ARGUMENT` naming the key of a file that is missing or holds the wrong thing
 */
export async function acquireClients(options: S3Options): Promise<ClientsLease> {
  const { credentialsFile, region } = options
  // At each open, though it may not be needed: a missing file must fail, shared clients or not.
  const resolve = credentialsFile === undefined ? chainProvider(region) : fileProvider(credentialsFile)
  const name = nameOf(options)
  let entry = entries.get(name)
  if (entry === undefined) {
    const credentials = new CredentialSource(resolve)
    const shared = createClients(options, credentials.provider).then((clients) => ({
      clients,
      credentials,
      slots: new Slots(options.concurrency),
      verdicts: new CreateVerdicts(),
    }))
    entry = { shared, leases: 0 }
    entries.set(name, entry)
  }
  const own = entry
  own.leases++
  const leave = (): boolean => {
    const last = --own.leases === 0
    if (last && entries.get(name) === own) entries.delete(name)
    return last
  }
  try {
    const shared = await own.shared
    const release = (): void => {
      if (leave()) shared.clients.destroy()
    }
    return { shared, release }
  } catch (error) {
    leave()
    throw error
  }
}

/** Equal for options that may share: same store, same sockets, same credentials. */
function nameOf(options: S3Options): string {
  const { endpoint, region, credentialsFile, forcePathStyle, checksums, proxy, caFile } = options
  const { concurrency, maxAttempts, connectTimeoutMs, idleTimeoutMs } = options
  const environment = Object.entries(process.env).filter(([name]) => name.startsWith('AWS_') || name === 'HOME')
  return JSON.stringify([
    [endpoint?.href, region, forcePathStyle, checksums, proxy?.href, caFile],
    [concurrency, maxAttempts, connectTimeoutMs, idleTimeoutMs],
    [credentialsFile, versionOf(credentialsFile), environment.toSorted(([a], [b]) => (a < b ? -1 : 1))],
  ])
}

/** A file that was written anew may hold another account. */
function versionOf(path: string | undefined): string {
  if (path === undefined) return ''
  const { mtimeMs, size, ino } = statSync(path)
  return `${mtimeMs} ${size} ${ino}`
}
