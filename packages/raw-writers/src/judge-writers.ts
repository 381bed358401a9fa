import { announcesWrites, findRawWriters, type RawWrite } from './find-raw-writers.ts'

/** A writer that may stay silent. A row of the engine's `sessionTreeWriters()` is one. */
export interface WriterRow {
  /** Path of a file, or of a directory ending in `/` for all that lies below and has no row of its own. */
  source: string
  /** Why nobody needs to hear of it. */
  why: string
}

/** A source as the check reads it. */
export interface ScannedSource {
  /** As rows name it, with `/`. */
  path: string
  text: string
}

/** What is wrong with the sources and the rows. */
export interface WriterVerdict {
  /** Files that write raw bytes, announce none, and have no row. */
  silent: { path: string; writes: RawWrite[] }[]
  /** Rows below whose source nothing writes raw bytes any more. */
  stale: WriterRow[]
}

/** Holds the raw writers in `sources` against the rows. */
export function judgeWriters(sources: readonly ScannedSource[], rows: readonly WriterRow[]): WriterVerdict {
  const used = new Set<WriterRow>()
  const silent: WriterVerdict['silent'] = []
  for (const { path, text } of sources) {
    const writes = findRawWriters(text, path)
    if (writes.length === 0) continue
    const row = rowFor(path, rows)
    if (row !== undefined) used.add(row)
    else if (!announcesWrites(text, path)) silent.push({ path, writes })
  }
  return { silent, stale: rows.filter((row) => !used.has(row)) }
}

/** The row of the file itself, else the one of the nearest directory above it. */
function rowFor(path: string, rows: readonly WriterRow[]): WriterRow | undefined {
  return rows
    .filter(({ source }) => source === path || (source.endsWith('/') && path.startsWith(source)))
    .toSorted((a, b) => b.source.length - a.source.length)[0]
}

/** Says what to do; empty when nothing is wrong. */
export function explainVerdict({ silent, stale }: WriterVerdict): string {
  const lines: string[] = []
  if (silent.length > 0) {
    lines.push('These files may write under a session tree without anybody hearing of it:')
    for (const { path, writes } of silent) {
      lines.push(`  ${path}`, ...writes.map(({ line, call, code }) => `    line ${line}, ${call}: ${code}`))
    }
    lines.push(
      'Three ways forward:',
      '  1. write through the workspace: session.writeFile() or session.appendFile() announce what they do;',
      '  2. keep the raw write and call session.announceWrite(absPath, existed) or announceAppend(absPath, bytes) after it;',
      '  3. if nobody needs to hear of it, add a row { source, why } to the writers that the check is given',
      '     (of the engine: sessionTreeWriters() in packages/engine/src/session/files/raw-writers.ts).',
    )
  }
  if (stale.length > 0) {
    lines.push('These rows are stale, nothing there writes raw bytes any more; remove them:')
    lines.push(...stale.map(({ source }) => `  ${source}`))
  }
  return lines.join('\n')
}
