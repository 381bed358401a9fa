import { createHash } from 'node:crypto'
import { lstatSync, readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'
import type { Engine } from '@nexus/engine'
import { JournalReader } from '@nexus/engine/journal'
import { dirEntry, fileEntry, type SessionView } from './session-view.ts'
import { HISTORY_PATH, WORKER_ID } from './worker-plugin.ts'

/** Looks at everything of a running session that the model knows. */
export async function takeView(engine: Engine): Promise<SessionView> {
  const { session, storage } = engine
  const own = storage.open('session', WORKER_ID)
  const faults: string[] = []
  for (const scope of ['session', 'app'] as const) {
    const check = storage.open(scope, WORKER_ID).db.pragma('integrity_check', { simple: true })
    if (check !== 'ok') faults.push(`integrity_check of the ${scope} store: ${String(check)}`)
  }
  const hasHistory = await session.fileExists(HISTORY_PATH)
  const lines = hasHistory ? (await session.readFile(HISTORY_PATH)).toString().split('\n').slice(0, -1) : []
  const rows = own.db.prepare<[], { id: string; text: string }>('SELECT id, text FROM rows').all()
  const hasValues = own.db.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'kv'").get() !== undefined
  const values = hasValues ? own.list().map((key) => [key, own.get(key)?.toString() ?? ''] as const) : []
  const ends = await readJournal(join(session.dir, 'journal'), faults)
  return {
    entries: Object.fromEntries(entriesBelow(session.filesDir, '')),
    history: lines.map((line) => JSON.parse(line) as string),
    rows: Object.fromEntries(rows.map(({ id, text }) => [id, text])),
    values: Object.fromEntries(values),
    blobs: await readBlobs(engine),
    ends,
    faults,
  }
}

function entriesBelow(root: string, dir: string): [string, string][] {
  return readdirSync(join(root, dir), { withFileTypes: true })
    .filter(({ name }) => !name.startsWith('.nexus-tmp-'))
    .flatMap((entry) => {
      const path = dir === '' ? entry.name : `${dir}/${entry.name}`
      const here: [string, string] = [path, entryOf(join(root, path))]
      return entry.isDirectory() ? [here, ...entriesBelow(root, path)] : [here]
    })
}

function entryOf(path: string): string {
  const stats = lstatSync(path)
  if (stats.isSymbolicLink()) return `link ${readlinkSync(path)}`
  if (stats.isDirectory()) return dirEntry(stats.mode & 0o7777)
  const sha256 = createHash('sha256').update(readFileSync(path)).digest('hex')
  return fileEntry(stats.mode & 0o7777, { sizeBytes: stats.size, sha256 })
}

/** Reads every blob back, against its digest. */
async function readBlobs({ session, storage }: Engine): Promise<Record<string, string>> {
  const { db } = storage.open('session', WORKER_ID)
  const blobs: [string, string][] = []
  for (const sha256 of db.prepare<[], string>('SELECT sha256 FROM blobs').pluck().all()) {
    const { data, mediaType } = await (await session.blobStore()).get(sha256, { verify: true })
    blobs.push([sha256, `${mediaType} ${data.length}`])
  }
  return Object.fromEntries(blobs)
}

/** Ids of the turns that ended, and what is wrong with the journal. */
async function readJournal(dir: string, faults: string[]): Promise<string[]> {
  const reader = await JournalReader.open(dir)
  const ends: string[] = []
  let last = 0
  for await (const { seq, type, payload } of reader) {
    if (seq !== last + 1) faults.push(`journal: seq ${seq} follows ${last}`)
    last = seq
    if (type === 'agent.turn.end') ends.push((payload as { turn_id: string }).turn_id)
  }
  if (reader.damage.length > 0) faults.push(`journal: ${reader.damage.length} damaged lines`)
  return ends
}
