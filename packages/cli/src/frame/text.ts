const ELLIPSIS = '…'
const NARROWEST = 8

/** Text of somebody as one line that can't move the cursor, colour the terminal or write over anything. */
export function plain(text: string): string {
  return text.replaceAll(CONTROLS, escaped)
}

/** The same for text of several lines: line feeds and tabs are kept. */
export function printable(text: string): string {
  return text.replaceAll(CONTROLS, (character) =>
    character === '\n' || character === '\t' ? character : escaped(character),
  )
}

// eslint-disable-next-line no-control-regex
const CONTROLS = /[\u0000-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g

function escaped(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
}

/** Cuts text to so many characters. */
export function shortened(text: string, width: number): string {
  return text.length <= width ? text : `${text.slice(0, Math.max(0, width - 1))}${ELLIPSIS}`
}

/**
 * Rows in columns. Where they don't fit, the widest columns are cut, none below eight characters.
 *
 * @param columns width of the terminal; default: nothing is cut
 */
export function fittedTable(
  rows: readonly (readonly string[])[],
  columns: number = Number.POSITIVE_INFINITY,
): string[] {
  const cells = rows.map((row) => row.map(plain))
  const widths: number[] = []
  for (const row of cells) row.forEach((cell, at) => (widths[at] = Math.max(widths[at] ?? 0, cell.length)))
  let excess = widths.reduce((sum, width) => sum + width, 2 * (widths.length - 1)) - columns
  for (; excess > 0; excess--) {
    const widest = widths.indexOf(Math.max(...widths))
    if ((widths[widest] ?? 0) <= NARROWEST) break
    widths[widest] = (widths[widest] ?? 0) - 1
  }
  return cells.map((row) =>
    row
      .map((cell, at) => shortened(cell, widths[at] ?? 0).padEnd(widths[at] ?? 0))
      .join('  ')
      .trimEnd(),
  )
}

const UNITS: readonly (readonly [seconds: number, name: string])[] = [
  [86_400, 'd'],
  [3600, 'h'],
  [60, 'min'],
  [1, 's'],
]

/** How long ago: `3 d ago`. */
export function ago(ms: number, nowMs: number = Date.now()): string {
  const seconds = Math.round((nowMs - ms) / 1000)
  const [size, name] = UNITS.find(([unit]) => Math.abs(seconds) >= unit) ?? [1, 's']
  const count = Math.floor(Math.abs(seconds) / size)
  return seconds < 0 ? `in ${count} ${name}` : count === 0 ? 'now' : `${count} ${name} ago`
}

/** A moment with how long ago it was: `2026-11-30 16:34:12Z (3 h ago)`. */
export function moment(ms: number, nowMs?: number): string {
  return `${exact(ms)} (${ago(ms, nowMs)})`
}

/** A moment to the second, in UTC. */
export function exact(ms: number): string {
  return new Date(ms)
    .toISOString()
    .replace('T', ' ')
    .replace(/\.\d+Z$/, 'Z')
}

/** A count with its noun: `1 file`, `2 files`. */
export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`
}
