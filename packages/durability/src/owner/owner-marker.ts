import { NexusError } from '@nexus/errors'
import type { ThreadIdentity } from '@nexus/host'
import type { DurabilityEvents } from '../events/table.ts'

/** Who writes a session, as it stands in the store. */
export interface OwnerMarker {
  sessionId: string
  host: string
  pid: number
  /** The worker thread that the run is in; absent on a main thread. */
  thread?: ThreadIdentity | undefined
  instanceId: string
  /** RFC 3339. */
  claimedAt: string
  /** RFC 3339. */
  heartbeatAt: string
}

/** Who asks. */
export interface OwnerIdentity {
  host: string
  pid: number
  thread?: ThreadIdentity | undefined
  /** Unique to this run of an engine. */
  instanceId: string
  /** When this process started, in ms since the epoch. */
  processStartedAtMs: number
}

/**
 * What a marker means for this run.
 *
 * - `free`: there is none. `ours`: this run wrote it.
 * - `crashed`: its process ran on this host and is gone.
 * - `takeover`: its heartbeat stopped long ago.
 * - `conflict`: nothing says that its holder is gone.
 */
export type OwnerVerdict = 'free' | 'ours' | 'crashed' | 'takeover' | 'conflict'

/** A marker larger than this is garbage. */
export const OWNER_MARKER_LIMIT_BYTES: number = 64 * 1024

const SCHEMA_VERSION = 1

export function serializeOwnerMarker(marker: OwnerMarker, keyPrefix: string): string {
  return `${JSON.stringify({
    _schema_version: SCHEMA_VERSION,
    session_id: marker.sessionId,
    key_prefix: keyPrefix,
    host: marker.host,
    pid: marker.pid,
    ...(marker.thread === undefined ? {} : { thread: marker.thread.tid, thread_start: marker.thread.start }),
    instance_id: marker.instanceId,
    claimed_at: marker.claimedAt,
    heartbeat_at: marker.heartbeatAt,
  })}\n`
}

/** @throws `CORRUPT` when it isn't a marker of a known version; callers report and carry on */
export function parseOwnerMarker(bytes: Uint8Array): OwnerMarker {
  const wire = parseJson(bytes)
  if (typeof wire !== 'object' || wire === null) throw garbage('is not a JSON object')
  const field = (name: string): unknown => (wire as Record<string, unknown>)[name]
  if (field('_schema_version') !== SCHEMA_VERSION) {
    throw garbage(`has schema version ${String(field('_schema_version'))}, this build knows ${SCHEMA_VERSION}`)
  }
  const text = (name: string): string => {
    const value = field(name)
    if (typeof value !== 'string') throw garbage(`has no ${name}`)
    return value
  }
  const pid = field('pid')
  if (typeof pid !== 'number' || !Number.isSafeInteger(pid)) throw garbage('has no pid')
  const [tid, start] = [field('thread'), field('thread_start')]
  const heartbeatAt = text('heartbeat_at')
  if (Number.isNaN(Date.parse(heartbeatAt))) throw garbage('has a heartbeat_at that is not a time')
  return {
    sessionId: text('session_id'),
    host: text('host'),
    pid,
    ...(typeof tid === 'number' && typeof start === 'number' ? { thread: { tid, start } } : {}),
    instanceId: text('instance_id'),
    claimedAt: text('claimed_at'),
    heartbeatAt,
  }
}

/** Age of the marker's last heartbeat in ms, by this machine's clock; negative when the other clock is ahead. */
function heartbeatAgeMs(marker: OwnerMarker, nowMs: number): number {
  return nowMs - Date.parse(marker.heartbeatAt)
}

/** What {@link judgeOwner} goes by. */
export interface OwnerKnowledge {
  nowMs: number
  /** Age of a heartbeat from which its holder counts as gone. */
  staleMs: number
  /** Whether a process with this pid exists on this host, and this worker thread of it. */
  isRunning: (pid: number, thread?: ThreadIdentity) => boolean
  /** Whether a run of this process was dropped under that instance id. */
  wasAbandoned: (instanceId: string) => boolean
}

/**
 * Detection only: nothing is refused because of a verdict, since it rests on clocks and pids.
 *
 * @see docs/concepts/durability.md
 */
export function judgeOwner(marker: OwnerMarker | undefined, us: OwnerIdentity, known: OwnerKnowledge): OwnerVerdict {
  if (marker === undefined) return 'free'
  if (marker.instanceId === us.instanceId) return 'ours'
  if (marker.host === us.host && isGone(marker, us, known)) return 'crashed'
  return heartbeatAgeMs(marker, known.nowMs) > known.staleMs ? 'takeover' : 'conflict'
}

/**
 * Our own pid in a marker that is older than this process was left by an earlier process with that pid: pid 1 in a
 * restarted container.
 */
function isGone(marker: OwnerMarker, us: OwnerIdentity, { isRunning, wasAbandoned }: OwnerKnowledge): boolean {
  if (!isRunning(marker.pid, marker.thread)) return true
  if (marker.pid !== us.pid) return false
  return Date.parse(marker.heartbeatAt) < us.processStartedAtMs || wasAbandoned(marker.instanceId)
}

/** Payload of `session.owner.conflict`. */
export function ownerConflictPayload(
  holder: OwnerMarker,
  us: Omit<OwnerIdentity, 'processStartedAtMs'>,
  { sessionId, nowMs }: { sessionId: string; nowMs: number },
): DurabilityEvents['session.owner.conflict'] {
  return {
    session_id: sessionId,
    holder_host: holder.host,
    holder_pid: holder.pid,
    holder_instance_id: holder.instanceId,
    holder_heartbeat_at: holder.heartbeatAt,
    heartbeat_age_seconds: heartbeatAgeMs(holder, nowMs) / 1000,
    local_host: us.host,
    local_pid: us.pid,
    local_instance_id: us.instanceId,
  }
}

function parseJson(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes))
  } catch (error) {
    throw garbage('is not JSON', error)
  }
}

function garbage(what: string, cause?: unknown): NexusError {
  return new NexusError('CORRUPT', `the owner marker ${what}`, { op: 'durability.owner', cause })
}
