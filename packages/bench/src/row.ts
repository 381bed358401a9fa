import type { Comparison } from './measure.ts'

/** A bound that a row is held to. */
export interface Goal {
  of: 'ratio' | 'ours' | 'stall'
  bound: 'at most' | 'at least'
  value: number
}

/** What a figure counts. */
export type Unit = 'ms' | '/s' | 'MiB' | 'KiB' | 'requests'

/** One line of the table. */
export interface Row {
  /** Of the bench, e.g. `P4`. */
  id: string
  what: string
  unit: Unit
  ours: number
  /** What it is measured against, in the same unit. */
  reference?: { name: string; value: number }
  ratio?: { value: number; low: number; high: number }
  /** Longest time the event loop was blocked, in milliseconds: the median of the rounds. */
  stallMs?: number
  /** None: the row is only reported. */
  goals: readonly Goal[]
  note?: string
}

export function ratioAtMost(value: number): Goal {
  return { of: 'ratio', bound: 'at most', value }
}

export function ratioAtLeast(value: number): Goal {
  return { of: 'ratio', bound: 'at least', value }
}

export function oursAtMost(value: number): Goal {
  return { of: 'ours', bound: 'at most', value }
}

export function oursAtLeast(value: number): Goal {
  return { of: 'ours', bound: 'at least', value }
}

export function stallAtMost(value: number): Goal {
  return { of: 'stall', bound: 'at most', value }
}

/** The fields of a row that come from a comparison. */
export function against(
  name: string,
  { ours, reference, ratio, ratioLow, ratioHigh }: Comparison,
): Pick<Row, 'ours' | 'reference' | 'ratio'> {
  return { ours, reference: { name, value: reference }, ratio: { value: ratio, low: ratioLow, high: ratioHigh } }
}

/** Whether a row meets a goal; false when it lacks the figure. */
export function meets(row: Row, { of, bound, value }: Goal): boolean {
  const figure = { ratio: row.ratio?.value, ours: row.ours, stall: row.stallMs }[of]
  if (figure === undefined) return false
  return bound === 'at most' ? figure <= value : figure >= value
}

/** Whether a row meets all its goals; undefined when it has none. */
export function verdict(row: Row): boolean | undefined {
  return row.goals.length === 0 ? undefined : row.goals.every((goal) => meets(row, goal))
}
