import { createHash } from 'node:crypto'
import { existsSync, lstatSync, readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'
import type { Engine } from '@nexus/engine'
import { LIBRARIAN_ID } from './librarian.ts'

/** Everything about a session that a resume must bring back, reduced to what two hosts can compare. */
export interface Fingerprint {
  /** Completed turns, as the database counts them. */
  turns: number
  /** sha256 of the conversation file. */
  history: string
  /** `path` → `mode size mtime sha256` of a file, `-> target` of a link, `mode directory` of a directory; below `files/`. */
  files: Record<string, string>
  /** Blob URI → media type and sha256 of the bytes as read back. */
  blobs: Record<string, string>
  /** Table → row count and sha256 of all rows in order. */
  tables: Record<string, string>
}

const HISTORY = 'context/conversation.jsonl'

/** Where the database lies in the session's tree. */
export const DATABASE_PATH: string = `plugins/${LIBRARIAN_ID}/store.db`

/** What a session has before its first commit. */
export function emptyFingerprint(): Fingerprint {
  const tables = Object.fromEntries(TABLES.map((table) => [table, `0 rows ${sha256('[]')}`]))
  return { turns: 0, history: sha256(''), files: {}, blobs: {}, tables }
}

const TABLES = ['documents', 'samples', 'turns', 'passages'] as const

function sha256(data: Buffer | string): string {
  return createHash('sha256').update(data).digest('hex')
}

function describe(path: string): string {
  const stat = lstatSync(path)
  const mode = (stat.mode & 0o7777).toString(8).padStart(4, '0')
  if (stat.isSymbolicLink()) return `-> ${readlinkSync(path)}`
  if (stat.isDirectory()) return `${mode} directory`
  return `${mode} ${stat.size} ${stat.mtime.toISOString()} ${sha256(readFileSync(path))}`
}

function filesBelow(root: string): Record<string, string> {
  // A session that died before its first commit comes back with whatever had reached the store.
  if (!existsSync(root)) return {}
  const names = readdirSync(root, { recursive: true, encoding: 'utf8' }).toSorted()
  return Object.fromEntries(names.map((name) => [name, describe(join(root, name))]))
}

/** Reads a fingerprint through the running engine: the same way on the host that was killed and on the one that resumed. */
export async function takeFingerprint(engine: Engine): Promise<Fingerprint> {
  const { session } = engine
  const { db } = engine.storage.open('session', LIBRARIAN_ID)
  const tables = Object.fromEntries(
    TABLES.map((table) => {
      const rows = db.prepare(`SELECT rowid, * FROM ${table} ORDER BY rowid`).all()
      return [table, `${rows.length} rows ${sha256(JSON.stringify(rows))}`]
    }),
  )
  const uris = db.prepare<[], string>('SELECT blob FROM documents ORDER BY name').pluck().all()
  const blobStore = await session.blobStore()
  const blobs: Record<string, string> = {}
  for (const uri of uris) {
    const { data: bytes, mediaType } = await blobStore.get(uri, { verify: true })
    blobs[uri] = `${mediaType} ${bytes.length} ${sha256(bytes)}`
  }
  return {
    turns: db.prepare<[], number>('SELECT count(*) FROM turns').pluck().get() ?? 0,
    history: sha256((await session.fileExists(HISTORY)) ? await session.readFile(HISTORY) : ''),
    files: filesBelow(session.filesDir),
    blobs,
    tables,
  }
}
