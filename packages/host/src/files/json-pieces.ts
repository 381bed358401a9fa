/** A part of a top-level member of a JSON object. Lists and objects come in parts, each of whole elements. */
export type JsonPiece =
  | { name: string; kind: 'value'; value: unknown }
  | { name: string; kind: 'items'; value: unknown[] }
  | { name: string; kind: 'fields'; value: Record<string, unknown> }

/** Bytes of a piece, unless one element alone is larger: some tenths of a millisecond of parsing. */
const PIECE_BYTES = 64 * 1024

const [QUOTE, BACKSLASH, COMMA, COLON] = [0x22, 0x5c, 0x2c, 0x3a]
const [OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT] = [0x5b, 0x5d, 0x7b, 0x7d]

/**
 * Parses a JSON object piece by piece, so that one of many megabytes can be read without holding the event loop: a caller
 * does something else between two pieces. Every list and object at the top has at least one piece, if an empty one. A name
 * that comes twice at the top is refused.
 *
 * @throws SyntaxError for anything but one JSON object in UTF-8
 */
export function* jsonPieces(bytes: Uint8Array): Generator<JsonPiece, void> {
  const names = new Set<string>()
  const parse = (from: number, to: number, before = '', after = ''): unknown =>
    JSON.parse(before + decode(bytes.subarray(from, to)) + after)
  let at = expectByte(bytes, skipSpace(bytes, 0), OPEN_OBJECT)
  at = skipSpace(bytes, at)
  if (bytes[at] === CLOSE_OBJECT) return expectEnd(bytes, at + 1)
  for (;;) {
    const nameEnd = stringEnd(bytes, at)
    const name = parse(at, nameEnd) as string
    if (names.has(name)) throw new SyntaxError(`the name ${JSON.stringify(name)} comes twice`)
    names.add(name)
    at = skipSpace(bytes, expectByte(bytes, skipSpace(bytes, nameEnd), COLON))
    if (bytes[at] === OPEN_LIST || bytes[at] === OPEN_OBJECT) {
      const isList = bytes[at] === OPEN_LIST
      const close = isList ? CLOSE_LIST : CLOSE_OBJECT
      let start = at + 1
      for (let isFirst = true; ; isFirst = false) {
        const end = pieceEnd(bytes, start)
        const isLast = bytes[end] !== COMMA
        if (isLast) expectByte(bytes, end, close)
        const isEmpty = skipSpace(bytes, start) >= end
        if (isEmpty && !(isFirst && isLast)) throw new SyntaxError('an element is missing')
        const value = isList ? parse(start, end, '[', ']') : parse(start, end, '{', '}')
        yield { name, kind: isList ? 'items' : 'fields', value } as JsonPiece
        start = end + 1
        if (isLast) break
      }
      at = start
    } else {
      const end = valueEnd(bytes, at)
      yield { name, kind: 'value', value: parse(at, end) }
      at = end
    }
    at = skipSpace(bytes, at)
    if (bytes[at] === CLOSE_OBJECT) return expectEnd(bytes, at + 1)
    at = skipSpace(bytes, expectByte(bytes, at, COMMA))
  }
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

function decode(bytes: Uint8Array): string {
  try {
    return utf8.decode(bytes)
  } catch (error) {
    throw new SyntaxError('it is not UTF-8', { cause: error })
  }
}

/** Where the piece ends that starts here: at the comma after enough bytes, or at what closes the list or object. */
function pieceEnd(bytes: Uint8Array, start: number): number {
  let depth = 0
  for (let at = start; at < bytes.length; at++) {
    const byte = bytes[at]
    if (byte === QUOTE) at = stringEnd(bytes, at) - 1
    else if (byte === OPEN_LIST || byte === OPEN_OBJECT) depth++
    else if (byte === CLOSE_LIST || byte === CLOSE_OBJECT) {
      if (depth === 0) return at
      depth--
    } else if (byte === COMMA && depth === 0 && at - start >= PIECE_BYTES) return at
  }
  throw cutShort()
}

function valueEnd(bytes: Uint8Array, start: number): number {
  if (bytes[start] === QUOTE) return stringEnd(bytes, start)
  let at = start
  while (at < bytes.length && bytes[at] !== COMMA && bytes[at] !== CLOSE_OBJECT) at++
  return at
}

/** The position after a string. What is inside is for the parser to judge. */
function stringEnd(bytes: Uint8Array, start: number): number {
  expectByte(bytes, start, QUOTE)
  for (let at = start + 1; at < bytes.length; at++) {
    if (bytes[at] === BACKSLASH) at++
    else if (bytes[at] === QUOTE) return at + 1
  }
  throw cutShort()
}

function skipSpace(bytes: Uint8Array, start: number): number {
  let at = start
  while (bytes[at] === 0x20 || bytes[at] === 0x0a || bytes[at] === 0x0d || bytes[at] === 0x09) at++
  return at
}

function expectByte(bytes: Uint8Array, at: number, byte: number): number {
  if (at >= bytes.length) throw cutShort()
  if (bytes[at] !== byte) throw new SyntaxError(`there is no ${String.fromCharCode(byte)} at byte ${at}`)
  return at + 1
}

function expectEnd(bytes: Uint8Array, at: number): void {
  if (skipSpace(bytes, at) < bytes.length) throw new SyntaxError('something follows its end')
}

function cutShort(): SyntaxError {
  return new SyntaxError('it ends too early')
}
