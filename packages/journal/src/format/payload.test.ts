import { runInNewContext } from 'node:vm'
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { encodePayload, revivePayload } from './payload.ts'

const LIMIT = 10_000_000

function roundTrip(value: unknown): unknown {
  const text = encodePayload(value, LIMIT)
  return text === undefined ? undefined : revivePayload(JSON.parse(text))
}

function errorOf(value: unknown, limit = LIMIT): unknown {
  return (JSON.parse(encodePayload(value, limit) ?? 'null') as Record<string, unknown>)['__journal_error']
}

describe('a payload of plain JSON', () => {
  it('comes back equal, whatever it is', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        // -0 has no JSON form; JSON writes 0.
        expect(roundTrip(value)).toEqual(JSON.parse(JSON.stringify(value)))
      }),
      { numRuns: 300 },
    )
  })

  it('is written as native JSON writes it', () => {
    const value = { a: [1, 2.5, -3e21, true, null, 'x"\\\n\u2028é😀'], b: {}, c: [] }
    expect(encodePayload(value, LIMIT)).toBe(JSON.stringify(value))
  })
})

describe('bytes', () => {
  it.each([
    ['a Buffer', Buffer.from([0, 255, 128])],
    ['a Uint8Array that is part of a larger buffer', new Uint8Array([9, 0, 255, 128, 9]).subarray(1, 4)],
    ['an ArrayBuffer', new Uint8Array([0, 255, 128]).buffer],
    ['a DataView', new DataView(new Uint8Array([9, 0, 255, 128]).buffer, 1)],
  ])('come back as the same bytes from %s', (_, value) => {
    const revived = roundTrip({ nested: [value] }) as { nested: Buffer[] }
    expect(Buffer.isBuffer(revived.nested[0])).toBe(true)
    expect([...(revived.nested[0] ?? [])]).toEqual([0, 255, 128])
  })

  it('come back from any bytes at any depth, beside keys that look like markers', () => {
    const key = fc.constantFrom('a', '__journal_bytes', '___journal_bytes', '__journal_error', '_', '__proto__', '')
    const tree = fc.letrec<{ node: unknown }>((tie) => ({
      node: fc.oneof(
        { maxDepth: 4 },
        fc.uint8Array({ maxLength: 20 }).map((bytes) => Buffer.from(bytes)),
        fc.string(),
        fc.array(tie('node'), { maxLength: 3 }),
        fc.dictionary(key, tie('node'), { maxKeys: 3, noNullPrototype: true }),
      ),
    })).node
    fc.assert(
      fc.property(tree, (value) => {
        expect(roundTrip(value)).toEqual(value)
      }),
      { numRuns: 500 },
    )
  })
})

describe('values that JSON has no word for', () => {
  it('have one form each', () => {
    const error = Object.assign(new TypeError('bad', { cause: 'why' }), { code: 'E1', stack: 'stack' })
    expect(
      roundTrip({
        date: new Date(0),
        badDate: new Date(Number.NaN),
        map: new Map<unknown, unknown>([['k', new Set([1])]]),
        error,
        nan: Number.NaN,
        infinite: [Infinity, -Infinity],
        left: undefined,
        out: () => 1,
        symbol: Symbol('x'),
        list: [undefined, () => 1, Symbol('x')],
        boxed: [Object(1), Object('s'), Object(false)],
        toJSON: undefined,
      }),
    ).toEqual({
      date: '1970-01-01T00:00:00.000Z',
      badDate: null,
      map: [['k', [1]]],
      error: { name: 'TypeError', message: 'bad', stack: 'stack', cause: 'why', code: 'E1' },
      nan: null,
      infinite: [null, null],
      list: [null, null, null],
      boxed: [1, 's', false],
    })
  })

  it('are recognised across realms', () => {
    const value: unknown = runInNewContext('({ date: new Date(0), map: new Map([[1, 2]]), error: new Error("x") })')
    expect(roundTrip(value)).toMatchObject({ date: '1970-01-01T00:00:00.000Z', map: [[1, 2]], error: { message: 'x' } })
  })

  it('are written through their own toJSON, and class instances by their fields', () => {
    class Point {
      x = 1
      readonly #hidden = 2
      get hidden(): number {
        return this.#hidden
      }
    }
    expect(roundTrip({ url: new URL('https://a.example/'), point: new Point() })).toEqual({
      url: 'https://a.example/',
      point: { x: 1 },
    })
  })

  it('leave nothing to write for an undefined payload', () => {
    expect(encodePayload(undefined, LIMIT)).toBeUndefined()
  })
})

describe('Unicode', () => {
  it('is well-formed, whatever the strings and keys hold', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0xd7f0, max: 0xe010 })), (units) => {
        const text = String.fromCharCode(...units)
        const written = encodePayload({ [text]: text, nested: [text] }, LIMIT) ?? ''
        const wellFormed = Buffer.from(text, 'utf8').toString('utf8')
        expect(JSON.parse(written)).toEqual({ [wellFormed]: wellFormed, nested: [wellFormed] })
      }),
    )
  })

  it('replaces a lone surrogate by U+FFFD and keeps whole emoji', () => {
    expect(roundTrip(['\ud83d', 'a\ude00b', '😀', '\\ud83d'])).toEqual(['\uFFFD', 'a\uFFFDb', '😀', '\\ud83d'])
  })
})

describe('a payload that cannot be serialised', () => {
  it.each<[string, () => unknown]>([
    ['a BigInt', () => ({ n: 1n })],
    [
      'a cycle',
      () => {
        const cycle: Record<string, unknown> = { list: [] }
        ;(cycle.list as unknown[]).push(cycle)
        return cycle
      },
    ],
    [
      'a throwing toJSON',
      () => ({
        toJSON: () => {
          throw new Error('no')
        },
      }),
    ],
    [
      'a throwing getter',
      () =>
        Object.defineProperty({}, 'x', {
          enumerable: true,
          get: () => {
            throw new Error('no')
          },
        }),
    ],
    [
      'something thrown that cannot be described',
      () => ({
        toJSON: () => {
          throw Object.create(null)
        },
      }),
    ],
    ['endless nesting', () => Array.from({ length: 5000 }).reduce<unknown>((inner) => [inner], 'x')],
  ])('becomes an error for %s', (_, make) => {
    expect(errorOf(make())).toEqual(expect.any(String))
  })

  it('becomes an error beyond the limit, on the quick path and on the careful one', () => {
    expect(errorOf({ text: 'x'.repeat(1001) }, 1000)).toContain('longer than 1000')
    expect(errorOf({ at: new Date(0), text: 'x'.repeat(1001) }, 1000)).toContain('longer than 1000')
  })

  it('stops early when shared references would make it exponential', () => {
    let bomb: unknown = ['lol']
    for (let i = 0; i < 60; i++) bomb = [bomb, bomb]
    expect(errorOf(bomb, 1_000_000)).toContain('longer than')
  })

  it('does not take a repeated reference for a cycle', () => {
    const shared = { a: 1 }
    expect(roundTrip({ x: shared, y: [shared, new Date(0)] })).toEqual({
      x: shared,
      y: [shared, '1970-01-01T00:00:00.000Z'],
    })
  })
})
