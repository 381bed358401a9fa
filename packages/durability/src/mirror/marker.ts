import { NexusError } from '@nexus/errors'
import { sessionKeys } from '../tree/keys.ts'
import type { Manifest } from './manifest/manifest.ts'
import type { CapturedTree } from '../layout/layout.ts'

/** The marker schema this build writes and reads. */
const MARKER_SCHEMA_VERSION = 1

/**
 * The commit marker: what a person who looks into the bucket reads first. Nothing restores from it. It may be one
 * generation behind the manifest, which is then right. Field names are as on the wire.
 *
 * @see docs/formats/object-store.md
 */
export interface CommitMarker {
  _schema_version: number
  session_id: string
  key_prefix: string
  generation: number
  manifest_key: string
  /** Counts the snapshots of one run from 1. */
  sequence: number
  trigger: string
  /** '' when the snapshot belongs to no turn. */
  turn_id: string
  completed_at: string
  objects: number
  bytes: number
}

/** The marker of a manifest that is about to be, or was, committed. */
export function commitMarker(
  manifest: Manifest,
  run: { sequence: number; trigger: CapturedTree['trigger']; turnId?: string; bytes: number },
): CommitMarker {
  return {
    _schema_version: MARKER_SCHEMA_VERSION,
    session_id: manifest.session_id,
    key_prefix: manifest.key_prefix,
    generation: manifest.generation,
    manifest_key: sessionKeys(manifest.session_id).manifest,
    sequence: run.sequence,
    trigger: run.trigger,
    turn_id: run.turnId ?? '',
    completed_at: manifest.completed_at,
    objects: manifest.objects.length,
    bytes: run.bytes,
  }
}

export function serializeMarker(marker: CommitMarker): string {
  return `${JSON.stringify(marker, undefined, 2)}\n`
}

const STRINGS = ['session_id', 'key_prefix', 'manifest_key', 'trigger', 'turn_id', 'completed_at'] as const
const COUNTS = ['generation', 'sequence', 'objects', 'bytes'] as const

/**
 * Reads a marker as it came from the store.
 *
 * @throws `UNSUPPORTED` for an unknown schema version, with both versions; `CORRUPT` for anything else; both carry the
 *   marker's key
 */
export function parseMarker(bytes: Uint8Array | string, sessionId: string): CommitMarker {
  const key = sessionKeys(sessionId).marker
  const corrupt = (what: string): NexusError =>
    new NexusError('CORRUPT', `commit marker ${key} is damaged: it ${what}`, { op: 'marker.parse', key })
  let value: unknown
  try {
    value = JSON.parse(typeof bytes === 'string' ? bytes : new TextDecoder('utf-8', { fatal: true }).decode(bytes))
  } catch {
    throw corrupt('is not JSON')
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw corrupt('is not an object')
  const fields = value as Record<string, unknown>
  const version = fields['_schema_version']
  if (version !== MARKER_SCHEMA_VERSION) {
    throw new NexusError(
      'UNSUPPORTED',
      `commit marker ${key} has schema version ${JSON.stringify(version) ?? 'none'}, and this build reads ` +
        `${MARKER_SCHEMA_VERSION}: open the session with the build that wrote it, or a later one`,
      { op: 'marker.parse', key },
    )
  }
  for (const name of STRINGS) if (typeof fields[name] !== 'string') throw corrupt(`has no string ${name}`)
  for (const name of COUNTS) if (!isCount(fields[name])) throw corrupt(`has a bad ${name}`)
  if (fields['session_id'] !== sessionId) throw corrupt(`belongs to session ${JSON.stringify(fields['session_id'])}`)
  return value as CommitMarker
}

function isCount(value: unknown): boolean {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0
}
