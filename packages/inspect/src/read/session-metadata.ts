import { readPlainFile } from '@nexus/host'
import { META_PATH } from '@nexus/durability/names'
import { join } from 'node:path'

/** `metadata/session.json` as it is on the disk or in the store; see docs/formats/session-tree.md for its fields. */
export interface SessionMetadata {
  readonly id?: string
  /** RFC 3339. */
  readonly started_at?: string
  /** RFC 3339; absent while active. */
  readonly ended_at?: string
  readonly profile?: string
  readonly plugins?: readonly string[]
  readonly labels?: Readonly<Record<string, string>>
  readonly turn_count?: number
  readonly tokens_used?: number
  readonly cost_usd?: number
  readonly status?: 'active' | 'ended'
}

type Check = (value: unknown) => boolean
const isString: Check = (value) => typeof value === 'string'
const isTime: Check = (value) => isString(value) && !Number.isNaN(Date.parse(value as string))
const isCount: Check = (value) => typeof value === 'number' && Number.isFinite(value) && value >= 0
const isObject: Check = (value) => typeof value === 'object' && value !== null && !Array.isArray(value)

const FIELDS: Readonly<Record<keyof SessionMetadata, Check>> = {
  id: isString,
  started_at: isTime,
  ended_at: isTime,
  profile: isString,
  plugins: (value) => Array.isArray(value) && value.every(isString),
  labels: (value) => isObject(value) && Object.values(value as object).every(isString),
  turn_count: isCount,
  tokens_used: isCount,
  cost_usd: isCount,
  status: (value) => value === 'active' || value === 'ended',
}

/** What metadata say; a field of another type than it must have is left out, and so is everything of a damaged file. */
export function parseSessionMetadata(text: string): SessionMetadata {
  let parsed: unknown
  try {
    parsed = JSON.parse(text)
  } catch {
    return {}
  }
  if (!isObject(parsed)) return {}
  const fields = parsed as Record<string, unknown>
  const sound = Object.entries(FIELDS).filter(([name, accept]) => Object.hasOwn(fields, name) && accept(fields[name]))
  return Object.fromEntries(sound.map(([name]) => [name, fields[name]])) as SessionMetadata
}

/**
 * The metadata of a session directory; undefined when it has none.
 *
 * @throws NexusError `PRECONDITION` for a link in its place, `PERMISSION`, `LOCAL_IO`
 */
export function readLocalMetadata(sessionDir: string): SessionMetadata | undefined {
  const bytes = readPlainFile(join(sessionDir, META_PATH))
  return bytes === undefined ? undefined : parseSessionMetadata(bytes.toString('utf8'))
}
