import { factsOf, type SessionState } from './session-state.ts'

/** What a host finds in a session, in the terms of the model. */
export interface SessionView {
  /** Below `files/`: `file <mode> <size> <sha256>`, `link <target>` or `dir <mode>`. */
  entries: Record<string, string>
  history: string[]
  rows: Record<string, string>
  values: Record<string, string>
  /** sha256 → media type and size; read back and verified. */
  blobs: Record<string, string>
  /** Turn ends in the journal. */
  ends: string[]
  /** Faults that no state excuses: damaged journal lines, gaps, a database that fails its check. */
  faults: string[]
}

/** Parts of a view that are stored as one object. */
export type ViewPart = 'history' | 'database' | 'ends'

/** What the model expects a host to find. */
export function viewOf(state: SessionState): SessionView {
  const entries: [string, string][] = []
  for (const [path, node] of state.files) entries.push([path, fileEntry(node.mode, factsOf(node))])
  for (const [path, target] of state.links) entries.push([path, `link ${target}`])
  for (const [path, mode] of state.dirs) entries.push([path, dirEntry(mode)])
  return {
    entries: Object.fromEntries(entries),
    history: [...state.history],
    rows: Object.fromEntries(state.rows),
    values: Object.fromEntries(state.values),
    blobs: Object.fromEntries(state.blobs),
    ends: [...state.ends],
    faults: [],
  }
}

export function fileEntry(mode: number, { sizeBytes, sha256 }: { sizeBytes: number; sha256: string }): string {
  return `file ${mode.toString(8)} ${sizeBytes} ${sha256}`
}

export function dirEntry(mode: number): string {
  return `dir ${mode.toString(8)}`
}

/** How two views differ, as lines for people; none when they are equal. */
export function differences(expected: SessionView, found: SessionView): string[] {
  return [
    ...found.faults,
    ...recordDifferences('files/', expected.entries, found.entries),
    ...listDifferences('conversation', expected.history, found.history),
    ...recordDifferences('row ', expected.rows, found.rows),
    ...recordDifferences('value ', expected.values, found.values),
    ...recordDifferences('blob ', expected.blobs, found.blobs),
    ...listDifferences('turn ends', expected.ends, found.ends),
  ]
}

function recordDifferences(what: string, expected: Record<string, string>, found: Record<string, string>): string[] {
  const names = new Set([...Object.keys(expected), ...Object.keys(found)])
  return [...names]
    .filter((name) => own(expected, name) !== own(found, name))
    .toSorted()
    .map((name) => `${what}${name}: ${short(own(expected, name))} expected, ${short(own(found, name))} found`)
}

/** Names come from the model, `__proto__` among them. */
export function own(record: Record<string, string>, name: string): string | undefined {
  return Object.hasOwn(record, name) ? record[name] : undefined
}

function listDifferences(what: string, expected: readonly string[], found: readonly string[]): string[] {
  if (expected.length === found.length && expected.every((item, at) => item === found[at])) return []
  return [
    `${what}: ${short(expected.at(-1))} last of ${expected.length} expected, ${short(found.at(-1))} last of ${found.length} found`,
  ]
}

function short(text: string | undefined): string {
  if (text === undefined) return 'nothing'
  return text.length <= 60 ? text : `${text.slice(0, 40)}… (${text.length})`
}
