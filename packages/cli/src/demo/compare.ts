import type { Fingerprint } from './fingerprint.ts'

/** One line of the verdict: what was compared, what was found, and whether it is right. */
export interface Check {
  what: string
  found: string
  ok: boolean
}

type Part = 'files' | 'blobs' | 'tables'

function differences(expected: Record<string, string>, actual: Record<string, string>): string[] {
  const names = new Set([...Object.keys(expected), ...Object.keys(actual)])
  return [...names].filter((name) => expected[name] !== actual[name]).toSorted()
}

function partCheck(what: string, part: Part, expected: Fingerprint, actual: Fingerprint): Check {
  const different = differences(expected[part], actual[part])
  const count = Object.keys(expected[part]).length
  if (different.length === 0) return { what, found: `${count} of ${count} equal`, ok: true }
  return { what, found: `${different.length} differ: ${different.slice(0, 3).join(', ')}`, ok: false }
}

/** Compares what the killed host had at its last boundary with what the resumed host has. */
export function compareFingerprints(expected: Fingerprint, actual: Fingerprint): Check[] {
  const rows = Object.values(actual.tables).reduce((sum, table) => sum + Number.parseInt(table, 10), 0)
  return [
    {
      what: 'completed turns',
      found: `${actual.turns} of ${expected.turns}`,
      ok: actual.turns === expected.turns,
    },
    {
      what: 'conversation, byte for byte',
      found: actual.history.slice(0, 16),
      ok: actual.history === expected.history,
    },
    partCheck('files: bytes, modes, times, links', 'files', expected, actual),
    partCheck('blobs: bytes and media types', 'blobs', expected, actual),
    { ...partCheck('database tables', 'tables', expected, actual), what: `database tables (${rows} rows)` },
  ]
}
