import { randomBytes } from 'node:crypto'
import { mkdirSync } from 'node:fs'
import { readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { fromSystemError, isNexusError, systemCode } from '@nexus/errors'
import { Slices } from '@nexus/host'
import type { ObjectStore } from '@nexus/objectstore'
import { MANIFEST_FILE, sessionKeys } from '../tree/keys.ts'
import { manifestSteps } from './manifest-parse.ts'
import { MANIFEST_SCHEMA_VERSION, type Manifest } from './manifest.ts'
import { headOf, type CommitHead } from '../tree/committed.ts'

export interface ReadManifestOptions {
  /** An existing directory for a short-lived file. */
  scratchDir: string
  signal?: AbortSignal
}

/**
 * The manifest the store holds now, or undefined when the store itself says that there is none. Any failure of the store
 * rejects: an outage is never read as "no manifest". `CORRUPT` when it can't be parsed, `UNSUPPORTED` for an unknown schema
 * version.
 *
 * By `get` where the backend has it, else by hydrating the prefix that holds nothing but the manifest.
 */
export async function readCommittedManifest(
  store: ObjectStore,
  sessionId: string,
  options: ReadManifestOptions,
): Promise<Manifest | undefined> {
  const bytes = store.capabilities.get
    ? await getManifest(store, sessionId, options)
    : await hydrateManifest(store, sessionId, options)
  if (bytes === undefined) return undefined
  const slices = new Slices({ signal: options.signal })
  for (const steps = manifestSteps(bytes, sessionId); ;) {
    const step = steps.next()
    if (step.done === true) return step.value
    await slices.rest()
  }
}

const HEAD_BYTES = 2048

/**
 * Only who committed last: with `get` it reads the first bytes of the manifest, whatever its size, so that a check at every
 * turn costs the same for any session. Otherwise as {@link readCommittedManifest}.
 */
export async function readCommittedPair(
  store: ObjectStore,
  sessionId: string,
  options: ReadManifestOptions,
): Promise<CommitHead | undefined> {
  if (store.capabilities.get) {
    const bytes = await getManifest(store, sessionId, options, HEAD_BYTES)
    if (bytes === undefined) return undefined
    const head = parseHead(bytes.toString('utf8'), sessionId)
    if (head !== undefined) return head
  }
  const manifest = await readCommittedManifest(store, sessionId, options)
  if (manifest === undefined) return undefined
  return headOf(manifest)
}

/** What stands before the list of objects, when the manifest was written the way this build writes it. */
function parseHead(text: string, sessionId: string): CommitHead | undefined {
  const end = text.indexOf(',"objects":[')
  if (end === -1) return undefined
  let fields: Partial<Manifest>
  try {
    fields = JSON.parse(`${text.slice(0, end)}}`) as Partial<Manifest>
  } catch {
    return undefined
  }
  const { generation, nonce, instance_id: instanceId } = fields
  if (fields['_schema_version'] !== MANIFEST_SCHEMA_VERSION || fields.session_id !== sessionId) return undefined
  if (!Number.isSafeInteger(generation) || typeof nonce !== 'string' || typeof instanceId !== 'string') return undefined
  return { generation: generation as number, nonce, instanceId }
}

async function getManifest(
  store: ObjectStore,
  sessionId: string,
  { scratchDir, signal }: ReadManifestOptions,
  length?: number,
): Promise<Buffer | undefined> {
  const path = scratchPath(scratchDir)
  const options = { ...(signal === undefined ? {} : { signal }), ...(length === undefined ? {} : { length }) }
  try {
    await store.get(sessionKeys(sessionId).manifest, path, options)
    return await readLocal(path)
  } catch (error) {
    if (isNexusError(error, 'NOT_FOUND') && error.op !== READ_LOCAL) return undefined
    throw error
  } finally {
    await rm(path, { force: true })
  }
}

// A prefix without objects hydrates to an empty directory; `NOT_FOUND` from hydrate is a missing bucket, and an error.
async function hydrateManifest(
  store: ObjectStore,
  sessionId: string,
  { scratchDir, signal }: ReadManifestOptions,
): Promise<Buffer | undefined> {
  const dir = scratchPath(scratchDir)
  try {
    mkdirSync(dir, { mode: 0o700 })
    await store.hydrate(sessionKeys(sessionId).manifestPrefix, dir, signal === undefined ? {} : { signal })
    return await readLocal(join(dir, MANIFEST_FILE))
  } catch (error) {
    if (isNexusError(error, 'NOT_FOUND') && error.op === READ_LOCAL) return undefined
    throw error
  } finally {
    await rm(dir, { recursive: true, force: true })
  }
}

const READ_LOCAL = 'manifest.read'

async function readLocal(path: string): Promise<Buffer> {
  try {
    return await readFile(path)
  } catch (error) {
    throw systemCode(error) === undefined ? error : fromSystemError(error, READ_LOCAL, path)
  }
}

function scratchPath(scratchDir: string): string {
  return join(scratchDir, `.nexus-tmp-${randomBytes(8).toString('hex')}`)
}
