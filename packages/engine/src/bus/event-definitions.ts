import { VETOABLE_PREFIX } from './event.ts'
import type { EngineEventMap } from './event-map.ts'

/** The keys that are spelled out, without the index signature of open payloads. */
type NamedKeys<P> = keyof { [K in keyof P as string extends K ? never : number extends K ? never : K]: P[K] }

/** How a field's type is written in the reference; the compiler checks it against the event map. */
type KindOf<T> = unknown extends T
  ? 'any'
  : T extends string
    ? 'string'
    : T extends number
      ? 'integer' | 'number'
      : T extends boolean
        ? 'boolean'
        : T extends readonly string[]
          ? 'string[]'
          : T extends readonly unknown[]
            ? 'any[]'
            : 'object'

type FieldOf<P, K extends keyof P> = {
  readonly kind: KindOf<Exclude<P[K], undefined>>
  /** What it holds, with its unit. */
  readonly doc: string
} & (object extends Pick<P, K> ? { readonly optional: true } : { readonly optional?: never })

type DefinitionOf<P> = {
  /** One sentence: when it is emitted. */
  readonly summary: string
  readonly version: P extends { _schema_version?: infer V extends number } ? V : never
  /** More fields than these may be present. */
  readonly open?: true
  readonly fields: { readonly [K in Exclude<NamedKeys<P>, '_schema_version'> & keyof P]-?: FieldOf<P, K> }
}

/** A field as the reference page prints it. */
export interface EventFieldDefinition {
  readonly kind: string
  readonly doc: string
  readonly optional?: boolean
}

/** An event as the reference page prints it. */
export interface EventDefinition {
  readonly summary: string
  readonly version: number
  readonly open?: boolean
  readonly fields: Readonly<Record<string, EventFieldDefinition>>
}

const sessionId = { kind: 'string', doc: 'Id of the session.' } as const
const turnId = { kind: 'string', doc: 'Id of the turn.', optional: true } as const
const backend = { kind: 'string', doc: 'Name of the backend.' } as const
const failurePolicy = { kind: 'string', doc: '`degrade` or `strict`.' } as const
const droppedPushes = { kind: 'integer', doc: 'Blob uploads dropped because the queue was full.' } as const

const turn = {
  turn_id: { kind: 'string', doc: 'Id of the turn.' },
  session_id: sessionId,
  iteration: { kind: 'integer', doc: 'Which round of the agent loop.', optional: true },
} as const

const fileChange = {
  session_id: sessionId,
  path: { kind: 'string', doc: 'Session-relative path, `/`-separated.' },
  size: { kind: 'integer', doc: 'Bytes of the whole file after the write.' },
  offset: { kind: 'integer', doc: 'First changed byte; 0 also means "treat it as a rewrite".' },
  bytes_added: { kind: 'integer', doc: 'Bytes written from `offset` on.' },
} as const

/** The one table behind the reference page and the schema versions; checked against the event map field by field. */
const DEFINITIONS: { readonly [T in keyof EngineEventMap]: DefinitionOf<EngineEventMap[T]> } = {
  'core.boot': {
    summary: 'The first event of a run, once the journal runs and every plugin is up.',
    version: 1,
    fields: {
      config_path: { kind: 'string', doc: 'File the configuration came from.', optional: true },
      profile: { kind: 'string', doc: 'Name of the profile.', optional: true },
    },
  },
  'core.ready': { summary: 'Boot is complete; input is accepted.', version: 1, fields: {} },
  'core.shutdown': {
    summary: 'The engine is about to stop; plugins are still up.',
    version: 1,
    fields: {
      reason: { kind: 'string', doc: 'Why it stops.' },
      error: { kind: 'string', doc: 'The error that stops it.', optional: true },
    },
  },
  'core.tick': {
    summary: 'Every `core.tick_interval`; not journaled unless `journal.exclude_events` says otherwise.',
    version: 1,
    fields: {
      sequence: { kind: 'integer', doc: 'From 1 in every run.' },
      time: { kind: 'string', doc: 'RFC 3339.' },
    },
  },
  'core.error': {
    summary: 'A handler failed, or a part of the engine did. Failures while it is handled are logged only.',
    version: 1,
    fields: {
      source: { kind: 'string', doc: 'Who failed: the `source` of the subscription, or a part of the engine.' },
      error: { kind: 'string', doc: 'The message.' },
      fatal: { kind: 'boolean', doc: 'The run can not go on.' },
      retryable: { kind: 'boolean', doc: 'The same work may succeed later.' },
    },
  },
  'io.input': {
    summary: 'Input for the agent, after `before:io.input` let it pass.',
    version: 1,
    fields: {
      content: { kind: 'string', doc: 'The text.' },
      files: { kind: 'any[]', doc: 'Attachments, as they were submitted.', optional: true },
      session_id: sessionId,
    },
  },
  'io.output': {
    summary: 'Output of the agent.',
    version: 1,
    fields: {
      content: { kind: 'string', doc: 'The text.' },
      role: { kind: 'string', doc: 'Who speaks, e.g. `assistant`.' },
      turn_id: turnId,
      metadata: { kind: 'object', doc: 'Whatever the emitter adds.', optional: true },
    },
  },
  'io.history.replay': {
    summary: 'The conversation so far, for a front end that was just attached.',
    version: 1,
    fields: { messages: { kind: 'any[]', doc: 'Messages, oldest first.' } },
  },
  'agent.turn.start': { summary: 'A turn begins.', version: 1, fields: turn },
  'agent.turn.end': {
    summary: 'A turn is complete. Its emit resolves when the turn is durable: journal, then snapshot.',
    version: 1,
    fields: turn,
  },
  'llm.request': {
    summary: 'A request to a model provider.',
    version: 1,
    open: true,
    fields: {
      role: { kind: 'string', doc: 'What the model is used for.' },
      model: { kind: 'string', doc: 'Model name.' },
      messages: { kind: 'any[]', doc: 'Messages sent.' },
    },
  },
  'llm.response': {
    summary: 'The answer of a model provider.',
    version: 1,
    fields: {
      content: { kind: 'string', doc: 'The text.' },
      tool_calls: { kind: 'any[]', doc: 'Calls the model asks for.', optional: true },
      usage: {
        kind: 'object',
        doc: '`prompt_tokens`, `completion_tokens`, `total_tokens`, and what the provider adds.',
        optional: true,
      },
      cost_usd: { kind: 'number', doc: 'Cost of the call in US dollars.', optional: true },
      model: { kind: 'string', doc: 'Model that answered.', optional: true },
      finish_reason: { kind: 'string', doc: 'Why the model stopped.', optional: true },
    },
  },
  'tool.invoke': {
    summary: 'A tool is called.',
    version: 1,
    fields: {
      id: { kind: 'string', doc: 'Id of the call.' },
      name: { kind: 'string', doc: 'Name of the tool.' },
      arguments: { kind: 'any', doc: 'Its arguments.' },
      turn_id: turnId,
    },
  },
  'tool.result': {
    summary: 'A tool call ended.',
    version: 1,
    fields: {
      id: { kind: 'string', doc: 'Id of the call.' },
      name: { kind: 'string', doc: 'Name of the tool.' },
      output: { kind: 'any', doc: 'What it returned.', optional: true },
      error: { kind: 'string', doc: 'Why it failed.', optional: true },
      output_parts: { kind: 'any[]', doc: 'Output in several parts, e.g. text and images.', optional: true },
      turn_id: turnId,
    },
  },
  'session.file.created': { summary: 'A file appeared in the session.', version: 2, fields: fileChange },
  'session.file.updated': { summary: 'A file of the session changed.', version: 2, fields: fileChange },
  'session.file.deleted': {
    summary: 'A file of the session was deleted.',
    version: 1,
    fields: { session_id: sessionId, path: fileChange.path },
  },
  'session.snapshot.request': {
    summary: 'Asks for a snapshot now; its emit resolves when the snapshot has ended.',
    version: 1,
    fields: { reason: { kind: 'string', doc: 'Why, for the log.', optional: true } },
  },
  'session.snapshot.result': {
    summary: 'A snapshot ended, well or not.',
    version: 1,
    fields: {
      session_id: sessionId,
      trigger: { kind: 'string', doc: '`turn`, `request`, `shutdown` or `retry`.' },
      sequence: { kind: 'integer', doc: 'From 1 in every run.' },
      generation: { kind: 'integer', doc: 'Of the committed manifest; grows across runs and hosts.' },
      turn_id: turnId,
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
    version: 1,
    fields: {
      session_id: sessionId,
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
    summary: 'Another host has committed to the session since; see `core.object_store.on_lost`.',
    version: 1,
    fields: {
      session_id: sessionId,
      our_generation: { kind: 'integer', doc: 'The last generation this run committed or found.' },
      their_generation: { kind: 'integer', doc: 'The generation found now.' },
      their_instance_id: { kind: 'string', doc: 'Who committed it.' },
    },
  },
  'session.storage.degraded': {
    summary: 'An outage of the object store began; once per outage.',
    version: 1,
    fields: {
      session_id: sessionId,
      backend,
      failure_policy: failurePolicy,
      since: { kind: 'string', doc: 'RFC 3339.' },
      consecutive_failures: { kind: 'integer', doc: 'Failures so far.' },
      queued_pushes: { kind: 'integer', doc: 'Blob uploads that wait.' },
      dropped_pushes: droppedPushes,
      snapshot_pending: { kind: 'boolean', doc: 'A whole snapshot is owed.' },
      turns_blocked: { kind: 'boolean', doc: 'Input is vetoed until the store is back.' },
      error: { kind: 'string', doc: 'The last failure.' },
    },
  },
  'session.storage.recovered': {
    summary: 'The outage is over and everything owed is stored.',
    version: 1,
    fields: {
      session_id: sessionId,
      backend,
      failure_policy: failurePolicy,
      degraded_for_seconds: { kind: 'number', doc: 'How long it lasted.' },
      failures: { kind: 'integer', doc: 'Failures during it.' },
      retry_attempts: { kind: 'integer', doc: 'Attempts of the recovery worker.' },
      drained_pushes: { kind: 'integer', doc: 'Blob uploads made up for.' },
      dropped_pushes: droppedPushes,
    },
  },
  'session.local.stale': {
    summary: 'The local tree is older than the stored session, or was damaged, and the stored one counts.',
    version: 1,
    fields: {
      session_id: sessionId,
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
    version: 1,
    fields: {
      session_id: sessionId,
      generation: { kind: 'integer', doc: 'Of the commit.' },
      reason: { kind: 'string', doc: 'How that came about.' },
      paths: { kind: 'string[]', doc: 'The files concerned, session-relative.' },
    },
  },
  'thinking.step': { summary: 'A step of reasoning; lives in the journal only.', version: 1, open: true, fields: {} },
  'plan.progress': { summary: 'Progress of a plan; lives in the journal only.', version: 1, open: true, fields: {} },
}

const VERSIONS: ReadonlyMap<string, number> = new Map(
  Object.entries(DEFINITIONS).map(([type, { version }]) => [type, version]),
)

/** What `_schema_version` an event of the engine's own carries (a `before:*` event that of its target); 0 for others. */
export function schemaVersionOf(type: string): number {
  return VERSIONS.get(type.startsWith(VETOABLE_PREFIX) ? type.slice(VETOABLE_PREFIX.length) : type) ?? 0
}

/** Every event of the engine's own, by type. */
export function eventDefinitions(): Readonly<Record<string, EventDefinition>> {
  return DEFINITIONS
}

/** The payload with its `_schema_version`; a copy where that was missing, for the payload belongs to the emitter. */
export function withSchemaVersion(payload: unknown, version: number): unknown {
  if (typeof payload !== 'object' || payload === null || '_schema_version' in payload || Array.isArray(payload)) {
    return payload
  }
  return { _schema_version: version, ...payload }
}
