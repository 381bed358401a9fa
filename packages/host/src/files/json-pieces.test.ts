import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { jsonPieces } from './json-pieces.ts'

/** Puts the pieces together again. */
function whole(text: string | Uint8Array): Record<string, unknown> {
  const out: Record<string, unknown> = Object.create(null) as Record<string, unknown>
  for (const { name, kind, value } of jsonPieces(typeof text === 'string' ? Buffer.from(text) : text)) {
    if (kind === 'items') ((out[name] ??= []) as unknown[]).push(...value)
    else if (kind === 'fields') Object.assign((out[name] ??= Object.create(null)) as object, value)
    else out[name] = value
  }
  return out
}

describe('a JSON object in pieces', () => {
  it('holds what it holds when it is parsed whole', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string({ unit: 'binary' }), fc.jsonValue()), fc.nat(3), (object, indent) => {
        const text = JSON.stringify(object, undefined, indent)
        expect(JSON.stringify(whole(text))).toBe(JSON.stringify(JSON.parse(text)))
      }),
    )
  })

  it('comes in pieces of bounded size, however many elements it has', () => {
    const names = Array.from({ length: 100_000 }, (_, at) => `files/${at}`)
    const entries = Object.fromEntries(names.map((name) => [name, { size: 1, sha256: 'a'.repeat(64) }]))
    const text = JSON.stringify({ names, entries })
    const pieces = [...jsonPieces(Buffer.from(text))]
    expect(pieces.length).toBeGreaterThan(text.length / (128 * 1024))
    for (const { value } of pieces) expect(JSON.stringify(value).length).toBeLessThan(128 * 1024)
    expect(JSON.stringify(whole(text)) === text).toBe(true)
  })

  it.each([
    ['nothing', ''],
    ['a list', '[1]'],
    ['a cut object', '{"a":[1,2'],
    ['a cut string', '{"a":"b'],
    ['a missing element', '{"a":[1,,2]}'],
    ['a comma before the end of a list', '{"a":[1,]}'],
    ['a comma before the end of an object', '{"a":{"b":1,}}'],
    ['a comma at the end', '{"a":1,}'],
    ['something after the end', '{"a":1}{}'],
    ['a name without a value', '{"a":}'],
    ['a name twice', '{"a":1,"a":2}'],
    ['a list that ends as an object', '{"a":[1}}'],
    ['a control character', '{"a":"\n"}'],
  ])('refuses %s', (_, text) => {
    expect(() => whole(text)).toThrow(SyntaxError)
  })

  it('refuses a comma before the end of a list also where a piece ends there', () => {
    const many = Array.from({ length: 20_000 }, () => '"abcdef"').join(',')
    expect(() => whole(`{"a":[${many},]}`)).toThrow(SyntaxError)
  })

  it('refuses what is not UTF-8', () => {
    expect(() => whole(Buffer.from('{"a":"\xff"}', 'latin1'))).toThrow(SyntaxError)
  })
})
