import { describe, expect, it } from 'vitest'
import { ago, fittedTable, plain, printable } from './text.ts'

describe('a table', () => {
  it('fits the terminal by cutting its widest columns, and is whole where nothing is too wide', () => {
    const rows = [
      ['id', 'text'],
      ['1', 'x'.repeat(200)],
    ]
    expect(Math.max(...fittedTable(rows, 80).map((line) => line.length))).toBe(80)
    expect(fittedTable(rows, undefined)[1]).toContain('x'.repeat(200))
  })

  it('shows what would move a cursor or colour a terminal as text', () => {
    expect(fittedTable([['a\u001b[31m\nb']], undefined)).toEqual(['a\\u001b[31m\\u000ab'])
    expect(plain('a\u202eb\u009bc')).toBe('a\\u202eb\\u009bc')
  })
})

it.each([
  [0, 'now'],
  [59_000, '59 s ago'],
  [7_200_000, '2 h ago'],
  [3 * 86_400_000, '3 d ago'],
  [-60_000, 'in 1 min'],
])('tells %d ms as %s', (ms, text) => {
  expect(ago(0, ms)).toBe(text)
})

it('shows text of several lines without what a terminal would obey', () => {
  expect(printable('one\n\ttwo \u001b[31mred\u001b[0m\r')).toBe('one\n\ttwo \\u001b[31mred\\u001b[0m\\u000d')
})
