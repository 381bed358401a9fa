import { createHash } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isNexusError } from '@nexus/engine'
import type { ObjectStore } from '@nexus/objectstore'
import Database from 'better-sqlite3'
import { type Bucket, readCommit, readSession, type ReadSession } from '@nexus/independent-reader'
import { type AcknowledgedTurn, CONVERSATION, DATABASE, fileOf } from './fight-protocol.ts'

const TOMBSTONE_BYTES = 56

/**
 * Judges a session that several processes fought for, with nothing of the engine's own code: the commits form one chain without
 * a gap, each acknowledged turn is in its head, and in the commit that it was acknowledged with, byte for byte.
 *
 * @returns one sentence for each thing that is wrong
 */
export async function judgeChain(
  bucket: Bucket,
  sessionId: string,
  acknowledged: readonly AcknowledgedTurn[],
): Promise<{ problems: string[]; head: number; commits: number }> {
  const problems: string[] = []
  const prefix = `sessions/${sessionId}.v/commits`
  const generations = (await bucket.list(prefix)).map((key) => Number(key.slice(prefix.length + 1).replace('/', '')))
  const head = Math.max(0, ...generations)
  for (let generation = 1; generation <= head; generation++) {
    if (!generations.includes(generation)) problems.push(`commit ${generation} is missing below ${head}`)
  }
  let below: Buffer | undefined
  let commits = 0
  for (const generation of generations.toSorted((a, b) => a - b)) {
    const { bytes, header } = await readCommit(bucket, sessionId, generation)
    if (bytes.length === TOMBSTONE_BYTES || header === undefined) {
      if (below !== undefined) problems.push(`commit ${generation} is a tombstone above one that is not`)
      continue
    }
    commits += 1
    const { parent } = header as { parent?: { generation: number; header_sha256: string } }
    if (below !== undefined && (parent?.generation !== generation - 1 || parent.header_sha256 !== digestIn(below))) {
      problems.push(`commit ${generation} does not follow the one before it`)
    }
    below = bytes
  }
  const newest = await readSession(bucket, sessionId)
  if (newest === undefined) return { problems: [...problems, 'there is no session'], head, commits }
  problems.push(...missingFrom(newest, acknowledged))
  for (const turn of acknowledged.slice(-SAMPLED)) problems.push(...(await wrongAt(bucket, sessionId, turn)))
  return { problems, head, commits }
}

/** Reading a whole commit takes a while, and old ones are gone. */
const SAMPLED = 60

function digestIn(commit: Buffer): string {
  return commit.subarray(4, 36).toString('hex')
}

/** Turns that the head lacks, in its conversation or its database, and files that aren't those of the last turn. */
function missingFrom(session: ReadSession, acknowledged: readonly AcknowledgedTurn[]): string[] {
  const problems: string[] = []
  const spoken = spokenIn(session)
  const order = new Map(spoken.map((turn, index) => [turn, index]))
  const written = rowsIn(session)
  for (const { turn, generation } of acknowledged) {
    if (!order.has(turn)) problems.push(`turn ${turn}, acknowledged as ${generation}, is not in the conversation`)
    if (!written.has(turn)) problems.push(`turn ${turn}, acknowledged as ${generation}, is not in the database`)
  }
  if (order.size !== spoken.length) problems.push('a turn is in the conversation twice')
  const inOrder = acknowledged
    .filter(({ turn }) => order.has(turn))
    .toSorted((a, b) => a.generation - b.generation)
    .map(({ turn }) => order.get(turn) as number)
  if (inOrder.some((at, index) => index > 0 && at < (inOrder[index - 1] as number))) {
    problems.push('turns are not in the order of their commits')
  }
  return problems
}

/** The commit that a turn was acknowledged with; nothing when it was taken away meanwhile. */
async function wrongAt(bucket: Bucket, sessionId: string, turn: AcknowledgedTurn): Promise<string[]> {
  const { generation, fighter } = turn
  const { header } = await readCommit(bucket, sessionId, generation)
  if (header === undefined) return []
  const session = await readSession(bucket, sessionId, { generation })
  if (session === undefined) return [`commit ${generation} holds no session`]
  const content = session.files.get(fileOf(fighter))?.content ?? Buffer.alloc(0)
  const problems: string[] = []
  if (createHash('sha256').update(content).digest('hex') !== turn.sha256) {
    problems.push(`commit ${generation} has other bytes of ${fileOf(fighter)} than turn ${turn.turn} wrote`)
  }
  if (spokenIn(session).at(-1) !== turn.turn) problems.push(`commit ${generation} does not end with turn ${turn.turn}`)
  return problems
}

function spokenIn({ files }: ReadSession): string[] {
  const text = files.get(CONVERSATION)?.content.toString() ?? ''
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => (JSON.parse(line) as { content: string }).content)
}

function rowsIn({ files }: ReadSession): Set<string> {
  const content = files.get(`plugins/${DATABASE}/store.db`)?.content
  if (content === undefined) return new Set()
  const dir = mkdtempSync(join(tmpdir(), 'nexus-fight-db-'))
  try {
    const path = join(dir, 'store.db')
    writeFileSync(path, content)
    const db = new Database(path)
    const rows = db.prepare('SELECT turn FROM turns').all() as { turn: string }[]
    db.close()
    return new Set(rows.map(({ turn }) => turn))
  } finally {
    rmSync(dir, { recursive: true, force: true })
  }
}

/** The objects of an opened store, as the reader wants them. */
export function bucketOf(store: ObjectStore, scratchDir: string): Bucket {
  let reads = 0
  return {
    async get(key) {
      const path = join(scratchDir, `read-${++reads}`)
      try {
        await store.get(key, path)
        return readFileSync(path)
      } catch (error) {
        if (isNexusError(error, 'NOT_FOUND')) return undefined
        throw error
      } finally {
        rmSync(path, { force: true })
      }
    },
    async list(prefix) {
      return (await store.list(prefix)).map(({ key }) => key)
    },
  }
}
