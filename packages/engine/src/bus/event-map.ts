import type { DurabilityEvents } from '@nexus/durability'

/** What every payload of version 1 carries; the bus fills it in for the engine's own events. */
interface Version1 {
  _schema_version?: 1
}

/** Payloads that allow more fields than the named ones. */
interface Open {
  [field: string]: unknown
}

/** Payload of the events that say that a file of the session changed. */
export interface FileChangePayload {
  _schema_version?: 2
  session_id: string
  /** Session-relative, `/`-separated. */
  path: string
  /** Bytes of the whole file after the write. */
  size: number
  /** First changed byte; 0 also means "treat it as a rewrite". */
  offset: number
  bytes_added: number
}

/** Token counts of one model call. */
export interface LlmUsage extends Open {
  prompt_tokens: number
  completion_tokens: number
  total_tokens: number
}

interface TurnPayload extends Version1 {
  turn_id: string
  session_id: string
  iteration?: number
}

/** The events the engine itself emits or reads, with their payloads as they stand in the journal. */
export interface EngineEventMap extends DurabilityEvents {
  'core.boot': Version1 & { config_path?: string; profile?: string }
  'core.ready': Version1
  'core.shutdown': Version1 & { reason: string; error?: string }
  'core.tick': Version1 & { sequence: number; time: string }

  'io.input': Version1 & { content: string; files?: readonly unknown[]; session_id: string }
  'io.output': Version1 & { content: string; role: string; turn_id?: string; metadata?: object }
  'io.history.replay': Version1 & { messages: readonly unknown[] }

  'agent.turn.start': TurnPayload
  'agent.turn.end': TurnPayload

  'llm.request': Version1 & Open & { role: string; model: string; messages: readonly unknown[] }
  'llm.response': Version1 & {
    content: string
    tool_calls?: readonly unknown[]
    usage?: LlmUsage
    cost_usd?: number
    model?: string
    finish_reason?: string
  }

  'tool.invoke': Version1 & { id: string; name: string; arguments: unknown; turn_id?: string }
  'tool.result': Version1 & {
    id: string
    name: string
    output?: unknown
    error?: string
    output_parts?: readonly unknown[]
    turn_id?: string
  }

  'session.file.created': FileChangePayload
  'session.file.updated': FileChangePayload
  'session.file.deleted': Version1 & { session_id: string; path: string }

  'session.snapshot.request': Version1 & { reason?: string }
  'thinking.step': Version1 & Open
  'plan.progress': Version1 & Open
}

/**
 * Every event type that this program knows, with its payload. A plugin adds its own:
 *
 * ```ts
 * declare module '@nexus/engine' {
 *   interface EventMap { 'weather.report': { city: string; celsius: number } }
 * }
 * ```
 *
 * @see spec 70, Events
 */
// oxlint-disable-next-line typescript/no-empty-object-type -- open for declaration merging
export interface EventMap extends EngineEventMap {}

/** A type name the map knows. */
export type EventType = Extract<keyof EventMap, string>

/** Any type of event: those of the engine, which editors then offer, and everybody's own. */
// eslint-disable-next-line typescript/ban-types
export type AnyEventType = EventType | (string & {})

/**
 * The payload of an event type: that of the map; a `before:<type>` event carries the payload of `<type>`; a type that the
 * map doesn't know carries `unknown`.
 */
export type PayloadOf<T extends string> = T extends EventType
  ? EventMap[T]
  : T extends `before:${infer Target}`
    ? PayloadOf<Target>
    : unknown
