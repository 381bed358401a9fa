import type { EVENTS, FieldTypes } from './events.ts'

type FieldOf<Field> = Field extends { readonly kind: infer Kind }
  ? Kind extends keyof FieldTypes
    ? FieldTypes[Kind]
    : Kind extends readonly (infer Word)[]
      ? Word
      : never
  : never

type OptionalIn<Fields> = {
  [K in keyof Fields]: Fields[K] extends { readonly optional: true } ? K : never
}[keyof Fields]

/** Spelled out, so that editors show the fields and not how they were derived. */
type Flat<T> = { [K in keyof T]: T[K] }

/** The payload that a row describes; the bus fills in the version where the emitter left it out. */
type PayloadOfRow<Row, Fields> = Flat<
  { _schema_version?: Row extends { readonly version: infer Version } ? Version : 1 } & {
    [K in Exclude<keyof Fields, OptionalIn<Fields>>]: FieldOf<Fields[K]>
  } & { [K in OptionalIn<Fields>]?: FieldOf<Fields[K]> } & (Row extends { readonly open: true } ? Open : unknown)
>

interface Open {
  [field: string]: unknown
}

type Table = typeof EVENTS
type OwnType = { [T in keyof Table]: Table[T] extends { readonly fields: object } ? T : never }[keyof Table]

/** The events the engine itself emits or reads, with their payloads as they stand in the journal. */
export type EngineEventMap = { [T in OwnType]: PayloadOfRow<Table[T], Table[T]['fields']> }

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
