import { describe, expect, it } from 'vitest'
import { readOptions } from './options.ts'

const KNOWN = ['P1', 'P4', 'P5']

describe('the command line', () => {
  it('runs everything in full and prints a table by default', () => {
    expect(readOptions([], KNOWN)).toEqual({ only: undefined, quick: false, format: 'table' })
  })

  it('takes the separator that pnpm hands on, and ids in any case', () => {
    expect(readOptions(['--', '--only', 'p4,P5', '--quick', '--json'], KNOWN)).toEqual({
      only: ['P4', 'P5'],
      quick: true,
      format: 'json',
    })
  })

  it('names the benches that exist when one does not', () => {
    expect(() => readOptions(['--only', 'P9'], KNOWN)).toThrow('there is no bench P9; there are P1, P4, P5')
  })

  it('refuses two formats at once', () => {
    expect(() => readOptions(['--json', '--markdown'], KNOWN)).toThrow('exclude each other')
  })

  it('refuses what it does not know', () => {
    expect(() => readOptions(['--fast'], KNOWN)).toThrow('--fast')
  })
})
