import { isNexusError } from '@nexus/errors'
import { hideKnownSecrets, longestSpelling } from './secret-values.ts'

const HIDDEN = '[redacted]'
/** What is kept of a text. A store can answer with anything, and what it answers is not worth more to a reader. */
const MOST_CHARACTERS = 4096
const MARGIN_CHARACTERS = 512

// Each pattern keeps its first group, which says what was hidden. URLs come first: a signed URL carries its secret in
// the query, an authenticated proxy in the user part. Each must be linear: no two matches may begin in the same run of
// characters and read on to its end.
const SECRETS: readonly [RegExp, string | ((match: string) => string)][] = [
  [/\b([a-z][a-z0-9+.-]{0,30}:\/\/)[^\s/@"'<>]*@/gi, `$1${HIDDEN}@`],
  [/\bhttps?:\/\/[^\s"'<>]+/gi, hideQuery],
  [/\b((?:proxy-)?authorization["']?\s*[:=]\s*["']?)[^\r\n"',}]+(?:,\s*\w+=[^\s,"'}]+)*/gi, `$1${HIDDEN}`],
  [/\b((?:bearer|basic)\s+)[\w.~+/=-]{8,}/gi, `$1${HIDDEN}`],
  [/\b(AWS4-HMAC-SHA256)\s+[^\r\n"'}]+/g, `$1 ${HIDDEN}`],
  [/\b((?:A3T[A-Z0-9]|AKIA|ASIA|AROA|AIDA|ABIA|ACCA))[A-Z0-9]{12,}\b/g, `$1${HIDDEN}`],
  [/\b(GOOG1?)[A-Z0-9]{18,}\b/g, `$1${HIDDEN}`],
  [/\b(ya29\.)[\w-]+/g, `$1${HIDDEN}`],
  [/(?<![\w-])(eyJ)[\w-]{8,}\.[\w-]+\.[\w-]*/g, `$1${HIDDEN}`],
  [/\b((?:AccountKey|SharedAccessSignature)=)[^;\s"'<>]+/gi, `$1${HIDDEN}`],
  [/\b(sig=)[^&;\s"'<>]+/g, `$1${HIDDEN}`],
  [/(-----BEGIN [A-Z ]*PRIVATE KEY-----)[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)/g, `$1${HIDDEN}`],
  [
    /\b((?:aws[_-]?)?(?:secret[_-]?access[_-]?key|session[_-]?token|security[_-]?token|access[_-]?key[_-]?id|secret|password|passwd|private[_-]?key|refresh[_-]?token|access[_-]?token|client[_-]?secret|api[_-]?key|signature)["']?\s*[:=]\s*["']?)[^\s"',;&<>]+/gi,
    `$1${HIDDEN}`,
  ],
  [
    /(<(?:AWSAccessKeyId|SecretAccessKey|SessionToken|Signature|SignatureProvided|StringToSign|StringToSignBytes|CanonicalRequest|CanonicalRequestBytes)>)[^<]*/gi,
    `$1${HIDDEN}`,
  ],
]

function hideQuery(url: string): string {
  const query = url.indexOf('?')
  return query === -1 || query === url.length - 1 ? url : `${url.slice(0, query)}?${HIDDEN}`
}

/**
 * The text with everything that looks like a credential replaced (access keys, signatures, tokens, private keys, the user
 * part and the query of URLs), and every value that `hideSecrets` was told of. Vendors put such things into error
 * messages, and messages end up in logs. Takes time in proportion to the text, which is cut after 4,096 characters.
 */
export function redactSecrets(text: string): string {
  // Looked at a little further than is kept, and what a secret may have been cut in half in is dropped.
  const margin = Math.max(longestSpelling(), MARGIN_CHARACTERS)
  let clean = hideKnownSecrets(text.slice(0, MOST_CHARACTERS + margin), HIDDEN)
  for (const [pattern, replacement] of SECRETS) {
    clean = typeof replacement === 'string' ? clean.replace(pattern, replacement) : clean.replace(pattern, replacement)
  }
  if (text.length <= MOST_CHARACTERS) return clean
  const note = `... (${text.length} characters)`
  const whole = text.length > MOST_CHARACTERS + margin ? clean.length - margin : clean.length
  return clean.slice(0, Math.max(0, Math.min(whole, MOST_CHARACTERS - note.length))) + note
}

const MAX_ERRORS = 16
const SECRET_NAME = /authorization|secret|token|passw|cookie|credential|signature|(?:shared|account|access|api).?key/i

/**
 * The error with its causes, redacted so that a logger that prints them leaks nothing either: messages, stacks and every text
 * they carry. Of an object that an SDK hangs on its error, such as the request with its headers, only the plain values of its
 * first level are left. It is cleaned in place; where a field can't be written to, as on a frozen error or one that an SDK
 * defined to be read only, a copy without what can't be cleaned comes back. A text comes back redacted, any other value as it is.
 */
export function redactError<T>(error: T): T {
  return cleanError(error, new Map()) as T
}

function cleanError(error: unknown, seen: Map<Error, unknown>): unknown {
  if (typeof error === 'string') return redactSecrets(error)
  if (!(error instanceof Error)) return error
  if (seen.has(error)) return seen.get(error)
  // Deeper ones are cut off: they would be printed as they are.
  if (seen.size >= MAX_ERRORS) return undefined
  seen.set(error, error)
  const clean = new Map<string | symbol, unknown>()
  for (const name of Reflect.ownKeys(error)) {
    const value = cleanField(error, name, seen)
    clean.set(name, value)
    if (value === undefined) Reflect.deleteProperty(error, name)
    else if (Reflect.get(error, name) !== value) Reflect.set(error, name, value)
  }
  if ([...clean].every(([name, value]) => Reflect.get(error, name) === value)) return error
  const copy = copyOf(error, clean)
  seen.set(error, copy)
  return copy
}

function cleanField(error: Error, name: string | symbol, seen: Map<Error, unknown>): unknown {
  const field = Object.getOwnPropertyDescriptor(error, name)
  // A stack is an accessor in newer engines, and is read like a value.
  const value: unknown = name === 'stack' ? error.stack : field?.value
  if (value instanceof Error) return cleanError(value, seen)
  if (name === 'errors' && Array.isArray(value)) return cleanList(value, seen)
  return cleanValue(error, String(name), value)
}

/** The list itself where every error in it could be cleaned in place, so that it need not be written. */
function cleanList(errors: unknown[], seen: Map<Error, unknown>): unknown[] {
  const clean = errors.map((each) => cleanError(each, seen))
  return clean.every((each, at) => each === errors[at]) ? errors : clean
}

function copyOf(error: Error, fields: ReadonlyMap<string | symbol, unknown>): Error {
  const copy = Object.create(Object.getPrototypeOf(error) as object) as Error
  for (const [name, value] of fields) {
    if (value === undefined) continue
    const enumerable = Object.prototype.propertyIsEnumerable.call(error, name)
    Object.defineProperty(copy, name, { value, enumerable, writable: true, configurable: true })
  }
  return copy
}

function cleanValue(owner: Error, fieldName: string, value: unknown): unknown {
  if (typeof value === 'string') return cleanText(fieldName, value)
  if (typeof value !== 'object' || value === null) return typeof value === 'function' ? undefined : value
  // What our own errors carry was put there by us.
  if (isNexusError(owner)) return value
  const flat: [string, unknown][] = []
  for (const [name, field] of Object.entries(Object.getOwnPropertyDescriptors(value))) {
    const plain: unknown = field.value
    if (typeof plain === 'string') flat.push([name, cleanText(name, plain)])
    else if (typeof plain === 'number' || typeof plain === 'boolean') flat.push([name, plain])
  }
  return Object.fromEntries(flat.slice(0, 32))
}

function cleanText(name: string, text: string): string {
  return SECRET_NAME.test(name) ? HIDDEN : redactSecrets(text)
}
