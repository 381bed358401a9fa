import { chmod, mkdir, symlink, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import type { Plugin, PluginContext, PluginSession, PluginStorage } from '@nexus/engine'
import { passagesOf, pdfPageCount, pngSize, readDocument, samplesOf } from './documents.ts'
import { seededRandom, type Random } from './seeded-random.ts'

export const LIBRARIAN_ID = 'nexus.demo.librarian'

/** The number of turns that the demo completes; the one after them is killed. */
export const COMPLETED_TURNS = 6

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS documents (name TEXT PRIMARY KEY, media_type TEXT, bytes INTEGER, detail TEXT, blob TEXT);
  CREATE TABLE IF NOT EXISTS samples (sample INTEGER PRIMARY KEY, operation TEXT, size_bytes INTEGER, microseconds REAL);
  CREATE TABLE IF NOT EXISTS turns (turn INTEGER PRIMARY KEY, note TEXT);
  CREATE VIRTUAL TABLE IF NOT EXISTS passages USING fts5(title, body, document UNINDEXED);
`

/** What a turn's work is given. */
interface Desk {
  session: PluginSession
  storage: PluginStorage
  turn: number
  random: Random
}

async function catalogue(
  desk: Desk,
  name: Parameters<typeof readDocument>[0],
  detail: (bytes: Buffer) => string,
): Promise<Buffer> {
  const { bytes, mediaType } = readDocument(name)
  await desk.session.writeFile(`files/library/${name}`, bytes)
  const blob = await (await desk.session.blobStore()).put(bytes, mediaType)
  desk.storage.db
    .prepare('INSERT OR REPLACE INTO documents VALUES (?, ?, ?, ?, ?)')
    .run(name, mediaType, bytes.length, detail(bytes), blob.uri)
  return bytes
}

async function readMarkdown(desk: Desk): Promise<string> {
  const bytes = await catalogue(desk, 'durable-writes.md', (text) => `${passagesOf(text.toString()).length} passages`)
  const passages = passagesOf(bytes.toString())
  const insert = desk.storage.db.prepare('INSERT INTO passages (title, body, document) VALUES (?, ?, ?)')
  desk.storage.tx(() => passages.forEach(({ title, body }) => insert.run(title, body, 'durable-writes.md')))
  return `Indexed ${passages.length} passages of durable-writes.md for full-text search.`
}

async function readPdf(desk: Desk): Promise<string> {
  const bytes = await catalogue(desk, 'turn-boundaries.pdf', (pdf) => `${pdfPageCount(pdf)} page`)
  const original = join(desk.session.filesDir, 'library', 'turn-boundaries.pdf')
  await utimes(original, 978_307_200, 978_307_200)
  await chmod(original, 0o400)
  return `Filed turn-boundaries.pdf (${bytes.length} bytes), read-only, dated 2001.`
}

function dimensions(png: Buffer): string {
  const { width, height } = pngSize(png)
  return `${width} x ${height}`
}

async function readPng(desk: Desk): Promise<string> {
  const bytes = await catalogue(desk, 'disk-latency.png', dimensions)
  await mkdir(join(desk.session.filesDir, 'figures', 'later'), { recursive: true })
  await symlink('../library/disk-latency.png', join(desk.session.filesDir, 'figures', 'latency.png'))
  return `Linked the chart (${dimensions(bytes)}) into figures/.`
}

async function readCsv(desk: Desk): Promise<string> {
  const bytes = await catalogue(desk, 'disk-latency.csv', (csv) => `${samplesOf(csv.toString()).length} rows`)
  const samples = samplesOf(bytes.toString())
  const insert = desk.storage.db.prepare('INSERT INTO samples VALUES (?, ?, ?, ?)')
  desk.storage.tx(() => {
    for (const row of samples) insert.run(row.sample, row.operation, row.sizeBytes, row.microseconds)
  })
  return `Loaded ${samples.length} samples of disk-latency.csv.`
}

async function writeReport(desk: Desk): Promise<string> {
  const rows = desk.storage.db
    .prepare<[], { operation: string; mean: number; worst: number }>(
      'SELECT operation, avg(microseconds) AS mean, max(microseconds) AS worst FROM samples GROUP BY operation ORDER BY operation',
    )
    .all()
  const lines = rows.map(({ operation, mean, worst }) => `| ${operation} | ${mean.toFixed(1)} | ${worst.toFixed(1)} |`)
  await desk.session.writeFile(
    'files/report.md',
    ['| operation | mean (us) | worst (us) |', '|---|---|---|', ...lines, ''].join('\n'),
  )
  await desk.session.writeFile('files/bin/summary.sh', '#!/bin/sh\ncat "$(dirname "$0")/../report.md"\n')
  await chmod(join(desk.session.filesDir, 'bin', 'summary.sh'), 0o755)
  return `Summed up ${rows.length} operations in report.md.`
}

async function revise(desk: Desk): Promise<string> {
  const size = 1024 * (1 + Math.floor(desk.random() * 64))
  const bytes = Buffer.from(Array.from({ length: size }, () => Math.floor(desk.random() * 256)))
  await desk.session.writeFile('files/scratch.bin', bytes)
  await (await desk.session.blobStore()).put(bytes, 'application/octet-stream')
  const insert = desk.storage.db.prepare('INSERT INTO passages (title, body, document) VALUES (?, ?, ?)')
  const note = `Margin note of turn ${desk.turn}: ${Math.floor(desk.random() * 1e9)}`
  insert.run(`Turn ${desk.turn}`, note, 'notes.md')
  await desk.session.appendFile('files/notes.md', `- ${note}\n`)
  return `Revised the scratch file (${size} bytes) and added a margin note.`
}

const WORK: readonly ((desk: Desk) => Promise<string>)[] = [readMarkdown, readPdf, readPng, readCsv, writeReport]

/** What the librarian is asked at a turn, counted from 1. */
export function questionOf(turn: number): string {
  const questions = [
    'Read durable-writes.md and index it.',
    'File turn-boundaries.pdf where nobody overwrites it.',
    'Put the chart beside the figures.',
    'Load the samples.',
    'Sum them up in a report.',
  ]
  return questions[turn - 1] ?? `Revise the notes, round ${turn}.`
}

/**
 * The demo's agent: it takes `io.input`, works on real documents with files, blobs and SQL, keeps the conversation, and
 * ends the turn. Deterministic for a seed, so that two hosts can be compared.
 */
export function createLibrarian(seed: number): Plugin {
  return {
    id: LIBRARIAN_ID,
    name: 'Librarian',
    version: '1.0.0',
    init(context: PluginContext): void {
      const storage = context.storage('session')
      storage.db.exec(SCHEMA)
      const lastTurn = storage.db.prepare<[], { turn: number | null }>('SELECT max(turn) AS turn FROM turns')
      context.bus.subscribe('io.input', async (event) => {
        const turn = (lastTurn.get()?.turn ?? 0) + 1
        const turnId = `turn-${turn}`
        const { session } = context
        const desk: Desk = { session, storage, turn, random: seededRandom(seed * 1000 + turn) }
        const say = async (role: string, content: string): Promise<void> => {
          await session.appendFile(
            'context/conversation.jsonl',
            `${JSON.stringify({ role, content, turn_id: turnId })}\n`,
          )
        }
        await event.emit('agent.turn.start', { turn_id: turnId, session_id: session.id })
        await say('user', event.payload.content)
        const call = { id: `call-${turn}`, name: 'librarian', turn_id: turnId }
        await event.emit('tool.invoke', { ...call, arguments: { turn } })
        const output = await (WORK[turn - 1] ?? revise)(desk)
        storage.db.prepare('INSERT INTO turns VALUES (?, ?)').run(turn, output)
        await event.emit('tool.result', { ...call, output })
        await say('assistant', output)
        await event.emit('io.output', { content: output, role: 'assistant', turn_id: turnId })
        await event.emit('agent.turn.end', { turn_id: turnId, session_id: session.id })
      })
    },
  }
}
