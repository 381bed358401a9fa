import process from 'node:process'

/** Where a command writes; tests pass their own. */
export interface Output {
  /** A line of the result, on standard output. */
  line: (text: string) => void
  /** A piece of a line of the result, as it arrives. */
  piece: (text: string) => void
  /** A line about progress or failure, on standard error. */
  note: (text: string) => void
  /** Whether standard output shows colours. Default false. */
  colours?: boolean
  /** Characters in a line of the terminal; undefined when it is none: nothing is cut then. */
  columns?: number | undefined
}

/** The standard streams of this process. */
export const terminalOutput: Output = {
  line: (text) => void process.stdout.write(`${text}\n`),
  piece: (text) => void process.stdout.write(text),
  note: (text) => void process.stderr.write(`${text}\n`),
  get colours() {
    return process.stdout.isTTY && (process.env['NO_COLOR'] ?? '') === '' && process.env['TERM'] !== 'dumb'
  },
  get columns() {
    return process.stdout.isTTY ? process.stdout.columns : undefined
  },
}

/** Lays rows out in columns, padded with spaces; the last column is left as long as it is. */
export function table(rows: readonly (readonly string[])[]): string[] {
  const widths: number[] = []
  for (const row of rows) row.forEach((cell, column) => (widths[column] = Math.max(widths[column] ?? 0, cell.length)))
  return rows.map((row) =>
    row.map((cell, column) => (column === row.length - 1 ? cell : cell.padEnd(widths[column] ?? 0))).join('  '),
  )
}

/** A bar of `width` cells, filled in proportion. */
export function progressBar(done: number, total: number, width = 24): string {
  const filled = total === 0 ? width : Math.round((done / total) * width)
  return `[${'#'.repeat(filled)}${'.'.repeat(width - filled)}]`
}

/** Bytes for people: `1.4 MiB`. */
export function formatBytes(sizeBytes: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB']
  let value = sizeBytes
  let unit = 0
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024
    unit += 1
  }
  return `${unit === 0 ? value : value.toFixed(1)} ${units[unit]}`
}
