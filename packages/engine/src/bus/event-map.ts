import type { PayloadsOf } from '@nexus/durability/events'
import type { EVENTS, FieldTypes } from './events.ts'

/** The events the engine itself emits or reads, with their payloads as they stand in the journal. */
export type EngineEventMap = PayloadsOf<typeof EVENTS, FieldTypes>

/** Payload of the events that say that a file of the session changed. */
export type FileChangePayload = EngineEventMap['session.file.updated']

/**
 * Every event type that this program knows, with its payload. A plugin adds its own:
 *
 * ```ts
 * declare module '@nexus/engine' {
 *   interface EventMap { 'weather.report': { city: string; celsius: number } }
 * }
 * ```
 *
 * @see docs/reference/events.md
 */
// oxlint-disable-next-line typescript/no-empty-object-type -- open for declaration merging
export interface EventMap extends EngineEventMap {}

/** A type name the map knows. */
export type EventType = Extract<keyof EventMap, string>

/** Any type of event: those of the engine, which editors then offer, and those of plugins. */
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
