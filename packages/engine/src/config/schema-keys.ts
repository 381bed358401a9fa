import * as v from 'valibot'
import { parseDuration } from './duration.ts'
import { pathFault } from './file-path.ts'

/** What is said of a value that should hold keys. */
export const NOT_A_MAP = 'must be a map of keys'

/** What the reference page and error messages know about a key beside its schema. */
export interface KeyNote {
  /** What it holds, as the reference prints it. */
  readonly kind: string
  /** What it is for, with units. */
  readonly doc: string
  /** The words it may be, where there is a list of them. */
  readonly options?: readonly string[]
}

/** A schema by what it gives; an unwritten key gives its default. */
export type KeySchema<T> = v.GenericSchema<unknown, T>

/** One key. Nothing after the colon in YAML counts as not written. */
export function key<T>(schema: v.GenericSchema<unknown, T>, fallback: unknown, note: KeyNote): KeySchema<T> {
  const described = v.pipe(schema, v.metadata({ ...note }))
  return unlessWritten(described, fallback) as KeySchema<T>
}

/** The default is checked by the schema like a written value, so its type is none of the compiler's business. */
export function unlessWritten(schema: v.GenericSchema, fallback: unknown): v.GenericSchema {
  return v.nullish(schema, fallback)
}

/** A key that has no default and may stay undefined. */
export function optionalKey<T>(schema: v.GenericSchema<unknown, T>, note: KeyNote): KeySchema<T | undefined> {
  return key<T | undefined>(schema, undefined, note)
}

/** A map of keys, all of them known. */
export function block<const E extends v.ObjectEntries>(
  entries: E,
): KeySchema<v.InferOutput<v.StrictObjectSchema<E, undefined>>> {
  return unlessWritten(v.strictObject(entries, NOT_A_MAP), {}) as KeySchema<
    v.InferOutput<v.StrictObjectSchema<E, undefined>>
  >
}

/** A map that is handed on as it is. */
export function openMap(): v.GenericSchema<Record<string, unknown>> {
  return v.custom<Record<string, unknown>>(isMap, NOT_A_MAP)
}

function isMap(value: unknown): boolean {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

export function text(fallback: string, doc: string): KeySchema<string> {
  return key(anyText(), fallback, { kind: 'string', doc })
}

export function anyText(): v.GenericSchema<string> {
  return v.string('must be text; quote it if it looks like a number or a truth value')
}

/** A file path; an empty one is allowed where the default is empty. */
export function path(fallback: string, doc: string): KeySchema<string> {
  const schema = v.pipe(
    anyText(),
    v.rawCheck(({ dataset, addIssue }) => {
      const fault = dataset.typed && dataset.value !== fallback ? pathFault(dataset.value) : undefined
      if (fault !== undefined) addIssue({ message: fault })
    }),
  )
  return key(schema, fallback, { kind: 'path', doc })
}

export function flag(fallback: boolean, doc: string): KeySchema<boolean> {
  return key(v.boolean('must be true or false'), fallback, { kind: 'boolean', doc })
}

export function integer(fallback: number, min: number, max: number, doc: string): KeySchema<number> {
  const range = `must be a whole number from ${min} to ${max}`
  return key(v.pipe(v.number(range), v.integer(range), v.minValue(min, range), v.maxValue(max, range)), fallback, {
    kind: 'integer',
    doc,
  })
}

export function number(fallback: number, min: number, max: number, doc: string): KeySchema<number> {
  const range = `must be a number from ${min} to ${max}`
  return key(v.pipe(v.number(range), v.minValue(min, range), v.maxValue(max, range)), fallback, { kind: 'number', doc })
}

export function oneOf<const L extends readonly string[]>(
  options: L,
  fallback: L[number],
  doc: string,
): KeySchema<L[number]> {
  return key(v.picklist(options, `must be one of ${options.join(', ')}`), fallback, {
    kind: options.map((option) => `\`${option}\``).join(', '),
    doc,
    options,
  })
}

/** A duration, parsed to milliseconds. The limits are written as durations too. */
export function duration(fallback: string, min: string, max: string, doc: string): KeySchema<number> {
  const form = 'must be a duration such as 30d, 12h, 5m, 10s or 250ms'
  const schema = v.pipe(
    v.union([v.string(), v.literal(0)], form),
    v.rawTransform(({ dataset, addIssue, NEVER }): number => {
      const parsedMs = parseDuration(String(dataset.value))
      if (parsedMs === undefined) addIssue({ message: form })
      else if (parsedMs < limit(min) || parsedMs > limit(max)) addIssue({ message: `must be from ${min} to ${max}` })
      else return parsedMs
      return NEVER
    }),
  )
  return key(schema, fallback, { kind: 'duration', doc })
}

function limit(written: string): number {
  return parseDuration(written) as number
}
