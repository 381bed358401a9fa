import type { PayloadsOf } from './row.ts'

export type { EventField, EventRow, FieldTypes, PayloadsOf } from './row.ts'

/** What happens to turns that the store can't take: they go on, or input is refused until it can. */
export type FailurePolicy = 'degrade' | 'strict'

/**
 * What the durability of a session has to tell. The engine's table of events includes this one: types and the reference page
 * of both are derived from it, so adding an event is adding a row.
 *
 * @see docs/reference/events.md
 */
export const DURABILITY_EVENTS = {
  'session.snapshot.result': {
    summary: 'A snapshot ended, well or not.',
    fields: {
      session_id: { kind: 'string', doc: 'Id of the session.' },
      trigger: { kind: ['turn', 'request', 'shutdown', 'retry'], doc: 'What it was taken for.' },
      sequence: { kind: 'integer', doc: 'From 1 in every run.' },
      generation: { kind: 'integer', doc: 'Of the committed manifest; grows across runs and hosts.' },
      turn_id: { kind: 'string', doc: 'Id of the turn.', optional: true },
      objects: { kind: 'integer', doc: 'Objects of the stored session.' },
      bytes: { kind: 'integer', doc: 'Bytes of the stored session.' },
      objects_uploaded: { kind: 'integer', doc: 'Objects this snapshot uploaded.' },
      bytes_uploaded: { kind: 'integer', doc: 'Bytes this snapshot uploaded.' },
      objects_skipped: { kind: 'integer', doc: 'Objects the store held already.' },
      bytes_skipped: { kind: 'integer', doc: 'Bytes the store held already.' },
      db_bytes: { kind: 'integer', doc: 'Bytes of the database copies.' },
      manifest_bytes: { kind: 'integer', doc: 'Bytes of the manifest.' },
      unstored: { kind: 'string[]', doc: 'Paths that could not be stored as they are now.' },
      duration_ms: { kind: 'number', doc: 'Milliseconds.' },
      ok: { kind: 'boolean', doc: 'Whether it was committed.' },
      error: { kind: 'string', doc: 'Why it was not.', optional: true },
    },
  },
  'session.owner.conflict': {
    summary: 'Another live process seems to own the session; raised once per run.',
    fields: {
      session_id: { kind: 'string', doc: 'Id of the session.' },
      holder_host: { kind: 'string', doc: 'Host of the other process.' },
      holder_pid: { kind: 'integer', doc: 'Its pid.' },
      holder_instance_id: { kind: 'string', doc: 'Its instance.' },
      holder_heartbeat_at: { kind: 'string', doc: 'Its last sign of life, RFC 3339.' },
      heartbeat_age_seconds: { kind: 'number', doc: 'How long ago that was.' },
      local_host: { kind: 'string', doc: 'This host.' },
      local_pid: { kind: 'integer', doc: 'This pid.' },
      local_instance_id: { kind: 'string', doc: 'This instance.' },
    },
  },
  'session.owner.lost': {
    summary:
      'Another host has committed to the session since; see `core.object_store.on_lost`. On the bus and in the log: a run that lost journals nothing any more, this event included.',
    fields: {
      session_id: { kind: 'string', doc: 'Id of the session.' },
      our_generation: { kind: 'integer', doc: 'The last generation this run committed or found.' },
      their_generation: { kind: 'integer', doc: 'The generation found now.' },
      their_instance_id: { kind: 'string', doc: 'Which run committed it.' },
    },
  },
  'session.shared.lost': {
    summary: 'Another host has committed to agent- or app-scope storage since; this run no longer stores that root.',
    fields: {
      session_id: { kind: 'string', doc: 'Id of the session.' },
      root: { kind: 'string', doc: 'The shared root.' },
      our_generation: { kind: 'integer', doc: 'The last generation this run committed or found.' },
      their_generation: { kind: 'integer', doc: 'The generation found now.' },
      their_instance_id: { kind: 'string', doc: 'Which run committed it.' },
    },
  },
  'session.storage.degraded': {
    summary: 'An outage of the object store began; once per outage.',
    fields: {
      session_id: { kind: 'string', doc: 'Id of the session.' },
      backend: { kind: 'string', doc: 'Name of the backend.' },
      failure_policy: { kind: ['degrade', 'strict'], doc: 'The policy in force.' },
      since: { kind: 'string', doc: 'RFC 3339.' },
      consecutive_failures: { kind: 'integer', doc: 'Failures so far.' },
      queued_pushes: { kind: 'integer', doc: 'Blob uploads that wait.' },
      dropped_pushes: { kind: 'integer', doc: 'Blob uploads dropped because the queue was full.' },
      snapshot_pending: { kind: 'boolean', doc: 'A whole snapshot is owed.' },
      turns_blocked: { kind: 'boolean', doc: 'Input is vetoed until the store is back.' },
      error: { kind: 'string', doc: 'The last failure.' },
    },
  },
  'session.storage.recovered': {
    summary: 'The outage is over and everything owed is stored.',
    fields: {
      session_id: { kind: 'string', doc: 'Id of the session.' },
      backend: { kind: 'string', doc: 'Name of the backend.' },
      failure_policy: { kind: ['degrade', 'strict'], doc: 'The policy in force.' },
      degraded_for_seconds: { kind: 'number', doc: 'How long it lasted.' },
      failures: { kind: 'integer', doc: 'Failures during it.' },
      retry_attempts: { kind: 'integer', doc: 'Attempts of the recovery worker.' },
      drained_pushes: { kind: 'integer', doc: 'Blob uploads made up for.' },
      dropped_pushes: { kind: 'integer', doc: 'Blob uploads dropped because the queue was full.' },
    },
  },
  'session.local.stale': {
    summary: 'The local tree is older than the stored session, or was damaged, and the stored one counts.',
    fields: {
      session_id: { kind: 'string', doc: 'Id of the session.' },
      local_generation: { kind: 'integer', doc: 'Generation of the local tree.' },
      remote_generation: { kind: 'integer', doc: 'Generation in the store.' },
      forked: { kind: 'boolean', doc: 'The local tree has turns that the store never got.' },
      kept_at: {
        kind: 'string',
        doc: 'Where the local tree lies: set aside, or still in its place until the next boot.',
      },
    },
  },
  'session.hydrate.mixed': {
    summary: 'The restored tree holds files that are newer than the commit it was restored from.',
    fields: {
      session_id: { kind: 'string', doc: 'Id of the session.' },
      generation: { kind: 'integer', doc: 'Of the commit.' },
      reason: { kind: 'string', doc: 'How that came about.' },
      paths: { kind: 'string[]', doc: 'The files concerned, session-relative.' },
    },
  },
} as const

/** The payloads by event type. */
export interface DurabilityEvents extends PayloadsOf<typeof DURABILITY_EVENTS> {
  'core.error': { source: string; error: string; fatal: boolean; retryable: boolean }
}

/** One of {@link DurabilityEvents}. */
export type DurabilityEventType = keyof DurabilityEvents

/** Where events go. Resolves when the listeners have dealt with it; a rejection is logged and changes nothing. */
export type Tell = <T extends DurabilityEventType>(type: T, payload: DurabilityEvents[T]) => Promise<void>
