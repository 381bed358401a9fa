import { describe, expect, it } from 'vitest'
import { figure, renderJson, renderMarkdown, renderTable } from './report.ts'
import { oursAtMost, ratioAtMost, stallAtMost, type Row } from './row.ts'

const row: Row = {
  id: 'P4',
  what: 'a snapshot',
  unit: 'ms',
  ours: 12,
  reference: { name: 'raw', value: 10 },
  ratio: { value: 1.2, low: 1.1, high: 1.3 },
  stallMs: 3,
  goals: [ratioAtMost(1.15), stallAtMost(10)],
}

describe('the table', () => {
  it('says which of several goals a row misses', () => {
    expect(renderTable([row])).toContain('NO (ratio)')
  })

  it('says yes when a row meets them all', () => {
    expect(renderTable([{ ...row, goals: [ratioAtMost(1.2), stallAtMost(3)] }])).toMatch(/yes$/)
  })

  it('counts a goal as missed when its figure is lacking', () => {
    const { stallMs: _, ...noStall } = row
    expect(renderTable([noStall])).toContain('NO (ratio, stall)')
  })

  it('shows a row without goals as reported only', () => {
    expect(renderTable([{ ...row, goals: [] }])).toMatch(/reported$/)
  })

  it('is a Markdown table, too', () => {
    expect(renderMarkdown([row]).split('\n')[2]).toBe(
      '| P4 | a snapshot | 12 ms | raw 10 ms | 1.20x | 1.10-1.30 | 3 ms | at most 1.15x, stall at most 10 ms | NO (ratio) |',
    )
  })

  it('is data, too, with the verdict of each goal', () => {
    const { rows } = JSON.parse(renderJson([{ ...row, goals: [oursAtMost(12)] }], { quick: true })) as {
      rows: unknown[]
    }
    expect(rows).toMatchObject([{ id: 'P4', goals: [{ of: 'ours', met: true }], met: true }])
  })
})

describe('a figure', () => {
  it.each([
    [1_240_000, '/s', '1.24 M/s'],
    [380_000, '/s', '380 k/s'],
    [905, '/s', '905 /s'],
    [0.523, 'ms', '0.52 ms'],
    [240.7, 'ms', '241 ms'],
    [64, 'MiB', '64 MiB'],
  ] as const)('of %d %s is %s', (value, unit, text) => {
    expect(figure(value, unit)).toBe(text)
  })
})
