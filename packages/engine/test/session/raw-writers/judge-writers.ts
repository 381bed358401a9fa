import type { SessionTreeWriter } from '../../../src/session/files/raw-writers.ts'
import { announcesWrites, findRawWriters, type RawWrite } from './find-raw-writers.ts'

/** A source as the check reads it. */
export interface ScannedSource {
  /** Path in the repository. */
  path: string
  text: string
}

/** What is wrong with the sources and the rows. */
export interface WriterVerdict {
  /** Files that write raw bytes, announce none, and have no row. */
  silent: { path: string; writes: RawWrite[] }[]
  /** Rows below whose source nothing writes raw bytes any more. */
  stale: SessionTreeWriter[]
}

/** Holds the raw writers in `sources` against the rows. */
export function judgeWriters(sources: readonly ScannedSource[], rows: readonly SessionTreeWriter[]): WriterVerdict {
  const used = new Set<SessionTreeWriter>()
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
function rowFor(path: string, rows: readonly SessionTreeWriter[]): SessionTreeWriter | undefined {
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
      '  3. if nobody needs to hear of it, add a row that says why to sessionTreeWriters() in',
      '     packages/engine/src/session/files/raw-writers.ts.',
    )
  }
  if (stale.length > 0) {
    lines.push('These rows of sessionTreeWriters() are stale, nothing there writes raw bytes any more; remove them:')
    lines.push(...stale.map(({ source }) => `  ${source}`))
  }
  return lines.join('\n')
}
