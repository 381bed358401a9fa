import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ConfigError } from './document/problem.ts'
import { configFromObject, parseConfig } from './load.ts'

/** What is refused or expanded on purpose, and has its own tests. */
const special = (text: string): boolean => text.includes('${') || /\p{Surrogate}/u.test(text)

describe('any object', () => {
  const key = fc
    .string({ unit: 'binary' })
    .filter(
      (name) =>
        !special(name) && !name.includes('\0') && !['__proto__', 'constructor', 'prototype', '<<'].includes(name),
    )
  const text = fc.oneof(
    fc.string({ unit: 'binary' }).filter((value) => !special(value)),
    fc.constantFrom(
      'yes',
      'no',
      '~',
      'null',
      '1',
      '0x1',
      '1e3',
      '.inf',
      '- a',
      '# c',
      'a: b',
      '&a',
      '*a',
      '!t',
      '',
      ' ',
      'a\nb',
      '\ta',
      '%',
      '@',
      '`',
      '|',
      '>',
    ),
  )
  const { value } = fc.letrec((tie) => ({
    value: fc.oneof(
      { depthSize: 'small', withCrossShrink: true },
      text,
      fc.integer(),
      fc
        .double({ noNaN: true, noDefaultInfinity: true })
        .filter((n) => !Object.is(n, -0) && (Number.isSafeInteger(n) || !Number.isInteger(n))),
      fc.boolean(),
      fc.constant(null),
      fc.array(tie('value'), { maxLength: 4 }),
      fc.dictionary(key, tie('value'), { maxKeys: 4, noNullPrototype: true }),
    ),
  }))

  it('comes back from its YAML as it was', async () => {
    await fc.assert(
      fc.asyncProperty(fc.dictionary(key, value, { maxKeys: 4, noNullPrototype: true }), async (block) => {
        const loaded = await configFromObject({ plugins: { p: block } })
        expect(loaded.config.plugins.blocks).toEqual({ p: block })
        expect((await parseConfig(Buffer.from(loaded.text))).config).toEqual(loaded.config)
      }),
      { numRuns: 500 },
    )
  })
})

describe('any text', () => {
  it('loads or is refused with problems, and nothing else', async () => {
    const token = fc.oneof(
      fc.constantFrom(
        'core',
        'journal',
        'plugins',
        'fsync',
        ':',
        ': ',
        '\n',
        '\n  ',
        '\n\t',
        '- ',
        '? ',
        '[',
        ']',
        '{',
        '}',
        ',',
        '&a ',
        '*a',
        '<<: *a',
        '!t ',
        '!!int ',
        '|',
        '>',
        '"',
        "'",
        '#',
        '%YAML 1.2',
        '---',
        '...',
        '${X}',
        '1',
        '~',
        '\r\n',
        '\0',
        '\uFEFF',
      ),
      fc.string({ maxLength: 3 }),
    )
    await fc.assert(
      fc.asyncProperty(fc.array(token, { maxLength: 30 }), async (tokens) => {
        const outcome: unknown = await parseConfig(tokens.join(''), { env: { X: 'x' } }).then(
          ({ config }) => config.journal,
          (error: unknown) => error,
        )
        expect(outcome instanceof ConfigError ? outcome.problems.length > 0 : 'fsync' in (outcome as object)).toBe(true)
      }),
      { numRuns: 2000 },
    )
  })
})
