import { types } from 'node:util'
import { toWellFormed } from './unicode.ts'

/*
 * Forms of values that JSON has no word for:
 *
 *   bytes (Buffer, typed arrays, ArrayBuffer, DataView)   {"__journal_bytes": "<base64>"}, read back as a Buffer
 *   Date                                                  RFC 3339 string; null when invalid
 *   Map / Set                                             array of [key, value] pairs / array of members
 *   Error                                                 {name, message, code?, stack, cause?, ...own fields}
 *   undefined, functions, symbols                         left out of objects, null in arrays
 *   NaN, Infinity, -Infinity                              null
 *   lone surrogates                                       U+FFFD
 *   a cycle, a BigInt, a throwing getter or toJSON        the whole payload becomes {"__journal_error": "<reason>"}
 *
 * A key of the payload's own that begins with `__journal_` is written with one more leading underscore, which reading
 * takes off again: markers can't be forged and nothing collides.
 */

const BYTES_KEY = '__journal_bytes'
const ERROR_KEY = '__journal_error'
const RESERVED = /^_*__journal_/

/** Beyond this many nested levels native serialisation would overflow the stack. */
const MAX_DEPTH = 1000
/** The quick check gives up here, so that shared references can't make it exponential. */
const PLAIN_BUDGET = 100_000

let plainBudget = 0

/**
 * The JSON text of a payload, or undefined when there is nothing to write. Never throws: what can't be serialised becomes
 * `{"__journal_error": reason}`.
 *
 * @param maxChars a longer text is replaced by an error too
 */
export function encodePayload(payload: unknown, maxChars: number): string | undefined {
  if (payload === undefined) return undefined
  try {
    plainBudget = PLAIN_BUDGET
    if (isPlain(payload, 0)) {
      const text = JSON.stringify(payload)
      // Native JSON writes a lone surrogate as an escape, which parses back into the same broken string.
      if (!text.includes('\\ud')) return text.length <= maxChars ? text : encodeError(tooLong(maxChars))
    }
    const serializer = new Serializer(maxChars)
    serializer.value(payload)
    return serializer.text
  } catch (error) {
    return encodeError(describe(error))
  }
}

/** `{"__journal_error": reason}`. */
export function encodeError(reason: string): string {
  return `{"${ERROR_KEY}":${JSON.stringify(toWellFormed(reason.slice(0, 4096)))}}`
}

/** True when native `JSON.stringify` writes exactly the documented form, lone surrogates aside. */
function isPlain(value: unknown, depth: number): boolean {
  switch (typeof value) {
    case 'string':
    case 'boolean':
      return true
    case 'number':
      return value - value === 0
    case 'object':
      break
    default:
      return false
  }
  if (value === null) return true
  if (depth > 100 || --plainBudget < 0) return false
  if (Array.isArray(value)) {
    if ('toJSON' in value) return false
    for (let i = 0; i < value.length; i++) if (!isPlain(value[i], depth + 1)) return false
    return true
  }
  const prototype: unknown = Object.getPrototypeOf(value)
  if (prototype !== Object.prototype && prototype !== null) return false
  for (const key in value) {
    // `__journal_...` must be escaped, `toJSON` must be called, and inherited keys mean a patched Object.prototype.
    if (key.charCodeAt(0) === 95 && RESERVED.test(key)) return false
    const member: unknown = (value as Record<string, unknown>)[key]
    const type = typeof member
    if (type === 'string' || type === 'boolean') continue
    if (type === 'number') {
      if ((member as number) - (member as number) !== 0) return false
    } else if (type !== 'object' || !isPlain(member, depth + 1)) return false
  }
  return true
}

function tooLong(maxChars: number): string {
  return `payload is longer than ${maxChars} characters`
}

/** Writes any value in its documented form. Throws on cycles, BigInts, too much depth or text. */
class Serializer {
  text = ''
  readonly #maxChars: number
  readonly #ancestors: object[] = []

  constructor(maxChars: number) {
    this.#maxChars = maxChars
  }

  value(value: unknown): void {
    switch (typeof value) {
      case 'string':
        return this.#put(quote(value))
      case 'number':
        return this.#put(value - value === 0 ? String(value) : 'null')
      case 'boolean':
        return this.#put(value ? 'true' : 'false')
      case 'bigint':
        throw new TypeError('payload holds a BigInt, which JSON cannot hold; convert it to a string first')
      case 'object':
        return value === null ? this.#put('null') : this.#object(value)
      default:
        return this.#put('null')
    }
  }

  #put(text: string): void {
    this.text += text
    if (this.text.length > this.#maxChars) throw new RangeError(tooLong(this.#maxChars))
  }

  #object(value: object): void {
    const bytes = bytesOf(value)
    if (bytes) {
      this.#put(`{"${BYTES_KEY}":"${bytes.toString('base64')}"}`)
      return
    }
    if (this.#ancestors.includes(value)) throw new TypeError('payload refers to itself')
    if (this.#ancestors.length >= MAX_DEPTH) throw new RangeError(`payload is nested deeper than ${MAX_DEPTH} levels`)
    this.#ancestors.push(value)
    this.#members(value)
    this.#ancestors.pop()
  }

  #members(value: object): void {
    if (types.isDate(value)) {
      this.value(Number.isNaN(value.getTime()) ? null : value.toISOString())
    } else if (types.isMap(value) || types.isSet(value) || Array.isArray(value)) {
      this.#array(value)
    } else if (types.isNativeError(value) || value instanceof Error) {
      this.#record(errorFields(value))
    } else if (typeof (value as { toJSON?: unknown }).toJSON === 'function') {
      this.value((value as { toJSON: (key: string) => unknown }).toJSON(''))
    } else if (types.isBoxedPrimitive(value)) {
      this.value(value.valueOf())
    } else {
      this.#record(value as Record<string, unknown>)
    }
  }

  #array(values: Iterable<unknown>): void {
    this.#put('[')
    let first = true
    for (const member of values) {
      if (!first) this.#put(',')
      first = false
      this.value(member)
    }
    this.#put(']')
  }

  #record(fields: Record<string, unknown>): void {
    this.#put('{')
    let separator = ''
    for (const key of Object.keys(fields)) {
      const member = fields[key]
      if (member === undefined || typeof member === 'function' || typeof member === 'symbol') continue
      this.#put(`${separator}${quote(RESERVED.test(key) ? `_${key}` : key)}:`)
      separator = ','
      this.value(member)
    }
    this.#put('}')
  }
}

function bytesOf(value: object): Buffer | undefined {
  if (ArrayBuffer.isView(value)) return Buffer.from(value.buffer, value.byteOffset, value.byteLength)
  if (types.isAnyArrayBuffer(value)) return Buffer.from(value)
  return undefined
}

function errorFields(error: Error): Record<string, unknown> {
  const fields: Record<string, unknown> = { name: error.name, message: error.message }
  if (error.stack !== undefined) fields.stack = error.stack
  if (error.cause !== undefined) fields.cause = error.cause
  if (error instanceof AggregateError) fields.errors = error.errors
  return Object.assign(fields, error)
}

function describe(error: unknown): string {
  try {
    return error instanceof Error ? error.message : String(error)
  } catch {
    return 'payload threw a value that cannot be described'
  }
}

function quote(text: string): string {
  return JSON.stringify(toWellFormed(text))
}

/** Whether a JSON text can hold anything that {@link revivePayload} must undo. */
export function mayHoldMarkers(text: string): boolean {
  return text.includes('__journal_')
}

/** Turns parsed JSON back into what was written: byte markers into Buffers, escaped keys into their names. */
export function revivePayload(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map(revivePayload)
  const keys = Object.keys(value)
  if (keys.length === 1 && keys[0] === BYTES_KEY) {
    const text: unknown = (value as Record<string, unknown>)[BYTES_KEY]
    if (typeof text === 'string') return Buffer.from(text, 'base64')
  }
  const revived: Record<string, unknown> = {}
  for (const key of keys) {
    const name = key.startsWith('_') && RESERVED.test(key.slice(1)) ? key.slice(1) : key
    // Not an assignment: `__proto__` is an ordinary key in JSON and must stay one.
    Object.defineProperty(revived, name, {
      value: revivePayload((value as Record<string, unknown>)[key]),
      configurable: true,
      enumerable: true,
      writable: true,
    })
  }
  return revived
}
