import { join } from 'node:path'
import { engineTempName, Slices } from '@nexus/host'
import type { ObjectStore } from '@nexus/objectstore'
import { sessionKeys } from '../../tree/keys.ts'
import { readObject } from '../../tree/small-object.ts'
import { manifestSteps } from './parse.ts'
import { MANIFEST_SCHEMA_VERSION, type Manifest } from './manifest.ts'
import { headOf, type CommitHead } from '../../tree/committed.ts'

export interface ReadManifestOptions {
  /** A directory for a short-lived file. */
  scratchDir: string
  signal?: AbortSignal | undefined
}

/**
 * The manifest the store holds now, or undefined when the store itself says that there is none. Any failure of the store
 * rejects: an outage is never read as "no manifest". `CORRUPT` when it can't be parsed, `UNSUPPORTED` for an unknown schema
 * version.
 */
export async function readCommittedManifest(
  store: ObjectStore,
  sessionId: string,
  options: ReadManifestOptions,
): Promise<Manifest | undefined> {
  const bytes = await readBytes(store, sessionId, options)
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
 * Only who committed last: it reads the first bytes of the manifest, whatever its size, so that a check at every turn costs
 * the same for any session. Otherwise as {@link readCommittedManifest}.
 */
export async function readCommittedPair(
  store: ObjectStore,
  sessionId: string,
  options: ReadManifestOptions,
): Promise<CommitHead | undefined> {
  const start = await readBytes(store, sessionId, options, { length: HEAD_BYTES })
  if (start === undefined) return undefined
  const head = parseHead(start.toString('utf8'), sessionId)
  if (head !== undefined) return head
  const manifest = await readCommittedManifest(store, sessionId, options)
  return manifest === undefined ? undefined : headOf(manifest)
}

function readBytes(
  store: ObjectStore,
  sessionId: string,
  { scratchDir, signal }: ReadManifestOptions,
  range: { length?: number } = {},
): Promise<Buffer | undefined> {
  const scratchPath = join(scratchDir, engineTempName())
  return readObject(store, sessionKeys(sessionId).manifest, { scratchPath, signal, ...range })
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
