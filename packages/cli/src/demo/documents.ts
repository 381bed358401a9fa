import { readFileSync } from 'node:fs'

/** One real document that the demo works on; they are shipped in `assets/`. */
export interface Document {
  name: string
  mediaType: string
  bytes: Buffer
}

const MEDIA_TYPES = {
  'durable-writes.md': 'text/markdown',
  'turn-boundaries.pdf': 'application/pdf',
  'disk-latency.png': 'image/png',
  'disk-latency.csv': 'text/csv',
} as const

export type DocumentName = keyof typeof MEDIA_TYPES

/** Reads a shipped document. */
export function readDocument(name: DocumentName): Document {
  const url = new URL(`../../assets/${name}`, import.meta.url)
  return { name, mediaType: MEDIA_TYPES[name], bytes: readFileSync(url) }
}

/** A passage of a document: a Markdown heading and the text below it. */
export interface Passage {
  title: string
  body: string
}

/** Splits Markdown at its headings; text before the first heading is left out. */
export function passagesOf(markdown: string): Passage[] {
  return markdown
    .split(/^#+ /m)
    .slice(1)
    .map((section) => {
      const newline = section.indexOf('\n')
      return { title: section.slice(0, newline).trim(), body: section.slice(newline).trim() }
    })
}

/** One row of `disk-latency.csv`. */
export interface Sample {
  sample: number
  operation: string
  sizeBytes: number
  microseconds: number
}

/** Parses `disk-latency.csv`: a header line, then plain comma-separated values without quoting. */
export function samplesOf(csv: string): Sample[] {
  return csv
    .trim()
    .split('\n')
    .slice(1)
    .map((line) => {
      const [sample = '', operation = '', sizeBytes = '', microseconds = ''] = line.split(',')
      return { sample: Number(sample), operation, sizeBytes: Number(sizeBytes), microseconds: Number(microseconds) }
    })
}

/** Width and height of a PNG, from its IHDR chunk. @see PNG specification, section 11.2.2 */
export function pngSize(png: Buffer): { width: number; height: number } {
  return { width: png.readUInt32BE(16), height: png.readUInt32BE(20) }
}

/** The page count that a PDF's page tree states. */
export function pdfPageCount(pdf: Buffer): number {
  const counts = [...pdf.toString('latin1').matchAll(/\/Count (\d+)/g)].map((match) => Number(match[1]))
  return Math.max(0, ...counts)
}
