import type { Output } from '../src/output.ts'

/** An output that keeps what it is given. */
export function recorded(): Output & { lines: string[]; notes: string[]; pieces: string[] } {
  const lines: string[] = []
  const notes: string[] = []
  const pieces: string[] = []
  return {
    lines,
    notes,
    pieces,
    line: (text) => void lines.push(text),
    note: (text) => void notes.push(text),
    piece: (text) => void pieces.push(text),
  }
}
