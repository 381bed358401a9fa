import { meets, verdict, type Goal, type Row, type Unit } from './row.ts'

const HEAD = ['id', 'what', 'ours', 'reference', 'ratio', 'rounds', 'stall', 'goal', 'met'] as const

/** The rows as a table for a terminal. */
export function renderTable(rows: readonly Row[]): string {
  const lines = [HEAD as readonly string[], ...rows.map(cellsOf)]
  const widths = HEAD.map((_, column) => Math.max(...lines.map((cells) => (cells[column] as string).length)))
  return lines
    .map((cells) =>
      cells
        .map((cell, column) => cell.padEnd(widths[column] as number))
        .join('  ')
        .trimEnd(),
    )
    .join('\n')
}

/** The rows as a table for a page. */
export function renderMarkdown(rows: readonly Row[]): string {
  const lines = [HEAD as readonly string[], HEAD.map(() => '---'), ...rows.map(cellsOf)]
  return lines.map((cells) => `| ${cells.join(' | ')} |`).join('\n')
}

/** The rows as data, each goal with its verdict. */
export function renderJson(rows: readonly Row[], about: Record<string, unknown>): string {
  const judged = rows.map((row) => ({
    ...row,
    goals: row.goals.map((goal) => ({ ...goal, met: meets(row, goal) })),
    met: verdict(row) ?? null,
  }))
  return JSON.stringify({ ...about, rows: judged }, undefined, 2)
}

function cellsOf(row: Row): string[] {
  const met = verdict(row)
  return [
    row.id,
    row.note === undefined ? row.what : `${row.what} (${row.note})`,
    figure(row.ours, row.unit),
    row.reference === undefined ? '' : `${row.reference.name} ${figure(row.reference.value, row.unit)}`,
    row.ratio === undefined ? '' : `${row.ratio.value.toFixed(2)}x`,
    row.ratio === undefined ? '' : `${row.ratio.low.toFixed(2)}-${row.ratio.high.toFixed(2)}`,
    row.stallMs === undefined ? '' : figure(row.stallMs, 'ms'),
    row.goals.map((goal) => describe(goal, row.unit)).join(', ') || 'reported',
    met === undefined ? '' : met ? 'yes' : `NO${missed(row)}`,
  ]
}

// Which of several goals it was.
function missed(row: Row): string {
  if (row.goals.length < 2) return ''
  return ` (${row.goals
    .filter((goal) => !meets(row, goal))
    .map(({ of }) => of)
    .join(', ')})`
}

function describe({ of, bound, value }: Goal, unit: Unit): string {
  const amount = of === 'ratio' ? `${value}x` : figure(value, of === 'stall' ? 'ms' : unit)
  return `${of === 'stall' ? 'stall ' : ''}${bound} ${amount}`
}

/** A figure in few digits: `1.24 M/s`, `380 ms`, `0.52 ms`. */
export function figure(value: number, unit: Unit): string {
  if (unit !== '/s') return `${digits(value)} ${unit}`
  if (value >= 999_500) return `${digits(value / 1_000_000)} M/s`
  return value >= 9_995 ? `${digits(value / 1_000)} k/s` : `${digits(value)} /s`
}

function digits(value: number): string {
  if (Number.isInteger(value)) return String(value)
  const size = Math.abs(value)
  return value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : 2)
}
