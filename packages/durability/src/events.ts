interface Version1 {
  _schema_version?: 1
}

/** What happens to turns that the store can't take: they go on, or input is refused until it can. */
export type FailurePolicy = 'degrade' | 'strict'

/** What the durability of a session has to tell, by event type. The embedder decides where it goes. */
export interface DurabilityEvents {
  'session.snapshot.result': Version1 & {
    session_id: string
    trigger: 'turn' | 'request' | 'shutdown' | 'retry'
    sequence: number
    generation: number
    turn_id?: string
    objects: number
    bytes: number
    objects_uploaded: number
    bytes_uploaded: number
    objects_skipped: number
    bytes_skipped: number
    db_bytes: number
    manifest_bytes: number
    unstored: readonly string[]
    duration_ms: number
    ok: boolean
    error?: string
  }
  'session.owner.conflict': Version1 & {
    session_id: string
    holder_host: string
    holder_pid: number
    holder_instance_id: string
    holder_heartbeat_at: string
    heartbeat_age_seconds: number
    local_host: string
    local_pid: number
    local_instance_id: string
  }
  'session.owner.lost': Version1 & {
    session_id: string
    our_generation: number
    their_generation: number
    their_instance_id: string
  }
  'session.storage.degraded': Version1 & {
    session_id: string
    backend: string
    failure_policy: 'degrade' | 'strict'
    since: string
    consecutive_failures: number
    queued_pushes: number
    dropped_pushes: number
    snapshot_pending: boolean
    turns_blocked: boolean
    error: string
  }
  'session.storage.recovered': Version1 & {
    session_id: string
    backend: string
    failure_policy: 'degrade' | 'strict'
    degraded_for_seconds: number
    failures: number
    retry_attempts: number
    drained_pushes: number
    dropped_pushes: number
  }
  'session.local.stale': Version1 & {
    session_id: string
    local_generation: number
    remote_generation: number
    forked: boolean
    kept_at: string
  }
  'session.hydrate.mixed': Version1 & {
    session_id: string
    generation: number
    reason: string
    paths: readonly string[]
  }
  'session.shared.lost': Version1 & {
    session_id: string
    root: string
    our_generation: number
    their_generation: number
    their_instance_id: string
  }
  'core.error': Version1 & { source: string; error: string; fatal: boolean; retryable: boolean }
}

/** One of {@link DurabilityEvents}. */
export type DurabilityEventType = keyof DurabilityEvents

/** Where events go. Resolves when whoever listens has dealt with it; a rejection is logged and changes nothing. */
export type Tell = <T extends DurabilityEventType>(type: T, payload: DurabilityEvents[T]) => Promise<void>
