/** The types behind the kinds of fields. */
export interface FieldTypes {
  string: string
  integer: number
  number: number
  boolean: boolean
  object: object
  any: unknown
  'string[]': readonly string[]
  'any[]': readonly unknown[]
}

/** One field of a payload; `kind` is its type, or the words it may be. */
export interface EventField<Types = FieldTypes> {
  readonly kind: keyof Types | readonly string[]
  /** What it holds, with its unit. */
  readonly doc: string
  readonly optional?: true
}

/** One event type: what a table of events says of it. */
export interface EventRow<Types = FieldTypes> {
  /** One sentence: when it is emitted. */
  readonly summary: string
  /** `_schema_version` of the payload. Default 1. */
  readonly version?: number
  readonly fields: Readonly<Record<string, EventField<Types>>>
  /** More fields than the named ones may be present. */
  readonly open?: true
}

type FieldOf<Field, Types> = Field extends { readonly kind: infer Kind }
  ? Kind extends keyof Types
    ? Types[Kind]
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
type PayloadOfRow<Row, Fields, Types> = Flat<
  { _schema_version?: Row extends { readonly version: infer Version } ? Version : 1 } & {
    [K in Exclude<keyof Fields, OptionalIn<Fields>>]: FieldOf<Fields[K], Types>
  } & { [K in OptionalIn<Fields>]?: FieldOf<Fields[K], Types> } & (Row extends { readonly open: true }
      ? { [field: string]: unknown }
      : unknown)
>

/** The payloads of a table's events by type; rows without fields have none. */
export type PayloadsOf<Table, Types = FieldTypes> = {
  [T in keyof Table as Table[T] extends { readonly fields: object } ? T : never]: Table[T] extends {
    readonly fields: infer Fields
  }
    ? PayloadOfRow<Table[T], Fields, Types>
    : never
}
