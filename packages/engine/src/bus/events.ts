import {
  DURABILITY_EVENTS,
  type EventRow as CommonEventRow,
  type FieldTypes as CommonFieldTypes,
} from '@nexus/durability/events'
import { VETOABLE_PREFIX } from './event.ts'

/** Token counts of one model call. */
export interface LlmUsage {
  prompt_tokens: number
  completion_tokens: number
  total_tokens: number
  [field: string]: unknown
}

/** The types behind the kinds of fields. */
export interface FieldTypes extends CommonFieldTypes {
  usage: LlmUsage
}

/** One event type, or with `*` at its end a family of types. */
export interface EventRow extends Omit<CommonEventRow<FieldTypes>, 'fields'> {
  /** The engine asks with `before:<type>` first. */
  readonly vetoable?: true
  /**
   * The event is with the kernel before its first handler runs, so that a process that dies in a handler leaves it on disk.
   * Resume and replay are built on such an event: `journal.exclude_events` can't name it.
   */
  readonly writtenAhead?: true
  /** It stands for an effect outside the session: written ahead as well, and replay answers it from the journal. */
  readonly sideEffect?: true
  /** The payload. Absent for types that belong to plugins, of which the engine only knows the columns above. */
  readonly fields?: CommonEventRow<FieldTypes>['fields']
}

const OWN_EVENTS = {
  'core.boot': {
    summary: 'The first event of a run. The journal runs; plugins come up next, so none of them hears it.',
    fields: {
      config_path: { kind: 'string', doc: 'File the configuration came from.', optional: true },
      profile: { kind: 'string', doc: 'Name of the profile.', optional: true },
    },
  },
  'core.ready': {
    summary: 'Boot is complete and every plugin is up; input is accepted, also from a handler of this event.',
    fields: {},
  },
  'core.shutdown': {
    summary: 'The engine is about to stop; plugins are still up.',
    fields: {
      reason: { kind: 'string', doc: 'Why it stops.' },
      error: { kind: 'string', doc: 'The error that stops it.', optional: true },
    },
  },
  'core.tick': {
    summary: 'Every `core.tick_interval`; not journaled unless `journal.exclude_events` says otherwise.',
    fields: {
      sequence: { kind: 'integer', doc: 'From 1 in every run.' },
      time: { kind: 'string', doc: 'RFC 3339.' },
    },
  },
  'core.error': {
    summary: 'A handler failed, or a part of the engine did. Failures while it is handled are logged only.',
    fields: {
      source: { kind: 'string', doc: 'Who failed: the `source` of the subscription, or a part of the engine.' },
      error: { kind: 'string', doc: 'The message.' },
      fatal: { kind: 'boolean', doc: 'The run can not go on.' },
      retryable: { kind: 'boolean', doc: 'The same work may succeed later.' },
    },
  },
  'io.input': {
    summary: 'Input for the agent, after `before:io.input` let it pass.',
    vetoable: true,
    writtenAhead: true,
    fields: {
      content: { kind: 'string', doc: 'The text.' },
      files: { kind: 'any[]', doc: 'Attachments, as they were submitted.', optional: true },
      session_id: { kind: 'string', doc: 'Id of the session.' },
    },
  },
  'io.wait': {
    summary:
      'An input came by `submitInput` while the one before it was being handled, and waits. Whoever vetoes `before:io.wait` has it refused instead.',
    vetoable: true,
    fields: {
      content: { kind: 'string', doc: 'The text.' },
      files: { kind: 'any[]', doc: 'Attachments, as they were submitted.', optional: true },
      session_id: { kind: 'string', doc: 'Id of the session.' },
    },
  },
  'io.output': {
    summary: 'Output of the agent.',
    fields: {
      content: { kind: 'string', doc: 'The text.' },
      role: { kind: 'string', doc: 'Who speaks, e.g. `assistant`.' },
      turn_id: { kind: 'string', doc: 'Id of the turn.', optional: true },
      metadata: { kind: 'object', doc: 'Whatever the emitter adds.', optional: true },
    },
  },
  'io.history.replay': {
    summary: 'The conversation so far, for a front end that was just attached.',
    fields: { messages: { kind: 'any[]', doc: 'Messages, oldest first.' } },
  },
  'agent.turn.start': {
    summary: 'A turn begins.',
    writtenAhead: true,
    fields: {
      turn_id: { kind: 'string', doc: 'Id of the turn.' },
      session_id: { kind: 'string', doc: 'Id of the session.' },
      iteration: { kind: 'integer', doc: 'Which round of the agent loop.', optional: true },
    },
  },
  'agent.turn.end': {
    summary:
      'A turn is complete. Its emit resolves when the turn is durable (journal, then snapshot), or its snapshot failed and core.object_store.failure_policy took over.',
    writtenAhead: true,
    fields: {
      turn_id: { kind: 'string', doc: 'Id of the turn.' },
      session_id: { kind: 'string', doc: 'Id of the session.' },
      iteration: { kind: 'integer', doc: 'Which round of the agent loop.', optional: true },
      error: { kind: 'string', doc: 'Why the turn failed or was cancelled; absent when it went well.', optional: true },
    },
  },
  'llm.request': {
    summary: 'A request to a model provider.',
    sideEffect: true,
    open: true,
    fields: {
      role: { kind: 'string', doc: 'What the model is used for.' },
      model: { kind: 'string', doc: 'Model name.' },
      messages: { kind: 'any[]', doc: 'Messages sent.' },
    },
  },
  'llm.response': {
    summary: 'The answer of a model provider.',
    sideEffect: true,
    fields: {
      content: { kind: 'string', doc: 'The text.' },
      tool_calls: { kind: 'any[]', doc: 'Calls the model asks for.', optional: true },
      usage: {
        kind: 'usage',
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
    sideEffect: true,
    fields: {
      id: { kind: 'string', doc: 'Id of the call.' },
      name: { kind: 'string', doc: 'Name of the tool.' },
      arguments: { kind: 'any', doc: 'Its arguments.' },
      turn_id: { kind: 'string', doc: 'Id of the turn.', optional: true },
    },
  },
  'tool.result': {
    summary: 'A tool call ended.',
    sideEffect: true,
    fields: {
      id: { kind: 'string', doc: 'Id of the call.' },
      name: { kind: 'string', doc: 'Name of the tool.' },
      output: { kind: 'any', doc: 'What it returned.', optional: true },
      error: { kind: 'string', doc: 'Why it failed.', optional: true },
      output_parts: { kind: 'any[]', doc: 'Output in several parts, e.g. text and images.', optional: true },
      turn_id: { kind: 'string', doc: 'Id of the turn.', optional: true },
    },
  },
  'session.file.created': {
    summary: 'A file appeared in the session.',
    version: 2,
    fields: {
      session_id: { kind: 'string', doc: 'Id of the session.' },
      path: { kind: 'string', doc: 'Session-relative path, `/`-separated.' },
      size: { kind: 'integer', doc: 'Bytes of the whole file after the write.' },
      offset: { kind: 'integer', doc: 'First changed byte; 0 also means "treat it as a rewrite".' },
      bytes_added: { kind: 'integer', doc: 'Bytes written from `offset` on.' },
    },
  },
  'session.file.updated': {
    summary: 'A file of the session changed.',
    version: 2,
    fields: {
      session_id: { kind: 'string', doc: 'Id of the session.' },
      path: { kind: 'string', doc: 'Session-relative path, `/`-separated.' },
      size: { kind: 'integer', doc: 'Bytes of the whole file after the write.' },
      offset: { kind: 'integer', doc: 'First changed byte; 0 also means "treat it as a rewrite".' },
      bytes_added: { kind: 'integer', doc: 'Bytes written from `offset` on.' },
    },
  },
  'session.file.deleted': {
    summary: 'A file of the session was deleted.',
    fields: {
      session_id: { kind: 'string', doc: 'Id of the session.' },
      path: { kind: 'string', doc: 'Session-relative path, `/`-separated.' },
    },
  },
  'session.snapshot.request': {
    summary: 'Asks for a snapshot now; its emit resolves when the snapshot has ended.',
    fields: { reason: { kind: 'string', doc: 'Why, for the log.', optional: true } },
  },
  'thinking.step': { summary: 'A step of reasoning; lives in the journal only.', open: true, fields: {} },
  'plan.progress': { summary: 'Progress of a plan; lives in the journal only.', open: true, fields: {} },

  'agent.turn.*': { summary: 'Further events of a turn.', writtenAhead: true },
  'hitl.*': { summary: 'A human is asked, or answers.', sideEffect: true },
  'web.*': { summary: 'The web is read or written.', sideEffect: true },
  'vector.*': { summary: 'A vector store is read or written.', sideEffect: true },
  'shell.execute': { summary: 'A command is run.', sideEffect: true },
  'file.write': { summary: 'A file outside the session is written.', sideEffect: true },
  'code.execute': { summary: 'Code is run.', sideEffect: true },
  'rag.ingest': { summary: 'Documents are taken into an index.', sideEffect: true },
  'embeddings.embed': { summary: 'Text is embedded.', sideEffect: true },
} as const

/**
 * Every event that the engine emits, reads or treats in its own way: those above, and those of the durability package. Payload
 * types, schema versions, what is written ahead, what is a side effect and the reference page are derived from the rows:
 * adding an event is adding a row, here or in that package.
 *
 * @see docs/reference/events.md
 */
export const EVENTS: typeof OWN_EVENTS & typeof DURABILITY_EVENTS = { ...OWN_EVENTS, ...DURABILITY_EVENTS }

/** Every row by its type, in the order of the table. */
export function eventRows(): [string, EventRow][] {
  return Object.entries(EVENTS)
}

const ROWS: ReadonlyMap<string, EventRow> = new Map(eventRows())
const FAMILIES: readonly (readonly [prefix: string, row: EventRow])[] = eventRows()
  .filter(([type]) => type.endsWith('*'))
  .map(([type, row]) => [type.slice(0, -1), row])

function rowOf(type: string): EventRow | undefined {
  return ROWS.get(type) ?? FAMILIES.find(([prefix]) => type.startsWith(prefix))?.[1]
}

/** Whether an event of this type stands for an effect outside the session: replay answers it from the journal instead. */
export function isSideEffect(type: string): boolean {
  return rowOf(type)?.sideEffect === true
}

const ANSWERS: ReadonlySet<string> = new Set(['llm.response', 'tool.result', 'hitl.responded'])

/** Whether an event of this type is what the world said: a replay says it again. */
export function isAnswer(type: string): boolean {
  return ANSWERS.has(type)
}

/** Whether the event must be with the kernel before its first handler runs. */
export function isWrittenAhead(type: string): boolean {
  const row = rowOf(type)
  return row?.writtenAhead === true || row?.sideEffect === true
}

/** Whether a session can't be resumed without the events of this type in its journal. */
export function isAlwaysJournaled(type: string): boolean {
  return ROWS.get(type)?.writtenAhead === true
}

/** What `_schema_version` an event of the engine's own carries (a `before:*` event that of its target); 0 for others. */
export function schemaVersionOf(type: string): number {
  const row = ROWS.get(type.startsWith(VETOABLE_PREFIX) ? type.slice(VETOABLE_PREFIX.length) : type)
  return row?.fields === undefined ? 0 : (row.version ?? 1)
}

/** The payload with its `_schema_version`; a copy where that was missing, for the payload belongs to the emitter. */
export function withSchemaVersion(payload: unknown, version: number): unknown {
  if (typeof payload !== 'object' || payload === null || '_schema_version' in payload || Array.isArray(payload)) {
    return payload
  }
  return { _schema_version: version, ...payload }
}
