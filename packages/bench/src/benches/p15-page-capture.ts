import { createHash } from 'node:crypto'
import { readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { openStorageManager, type DatabaseInstant, type StorageManager } from '@nexus/storage'
import type { Bench, BenchContext } from '../bench.ts'
import { fillDatabase } from '../database.ts'
import { alternate, compare, elapsedMs, median } from '../measure.ts'
import { against, oursAtMost, ratioAtMost, stallAtMost, type Goal, type Row } from '../row.ts'
import { withStall } from '../stall.ts'

const PLUGIN = 'bench.db'
const MIB = 1024 * 1024
const CHUNK_BYTES = 16 * 1024
const ROWS = 10

interface Size {
  what: string
  bytes: number
  rounds: number
  goals: readonly Goal[]
}

const SIZES: readonly Size[] = [
  { what: '121 MiB', bytes: 121 * MIB, rounds: 7, goals: [ratioAtMost(0.05), oursAtMost(25), stallAtMost(8)] },
  { what: '1 GiB', bytes: 1024 * MIB, rounds: 3, goals: [ratioAtMost(0.01), oursAtMost(25), stallAtMost(8)] },
]

/** Ten scattered rows of a large database: its changed chunks read and hashed, beside VACUUM INTO and a hash of the copy. */
export const pageCaptureBench: Bench = {
  id: 'P15',
  title: 'page capture',
  async run(context) {
    const rows: Row[] = []
    for (const size of context.quick ? SIZES.slice(0, 1) : SIZES) rows.push(await measure(size, context))
    return rows
  },
}

async function measure({ what, bytes, rounds, goals }: Size, { scratch, quick }: BenchContext): Promise<Row> {
  const manager = openStorageManager({
    sessionDir: scratch.dir('p15'),
    storageRoot: scratch.dir('p15-root'),
    pageCapture: true,
  })
  const { db } = manager.open('session', PLUGIN)
  fillDatabase(db, bytes)
  const rowCount = Number(db.prepare('SELECT count(*) FROM items').pluck().get())
  const touch = db.prepare('UPDATE items SET body = randomblob(length(body)) WHERE id = ?')
  let seed = 1
  const touchRows = db.transaction(() => {
    for (let row = 0; row < ROWS; row++) touch.run(1 + ((seed += 7_919 * 31) % rowCount))
  })
  let since = new Map<string, string>()
  let storedBytes = 0
  const stalls: number[] = []
  const capture = async (): Promise<void> => {
    const [instant] = await manager.capture('session', scratch.dir('p15-copies'), { since })
    if (instant === undefined) throw new Error('the database was not captured')
    storedBytes = await hashChunks(instant)
    since = new Map([[instant.livePath, instant.id]])
    instant.release()
  }
  await capture()
  const samples = await alternate(
    {
      ours: async () => {
        // What the other contender changed is no part of the turn.
        await capture()
        touchRows()
        const { value, stallMs } = await withStall(() => elapsedMs(capture))
        stalls.push(stallMs)
        return value
      },
      vacuum: async () => {
        touchRows()
        return elapsedMs(() => vacuumAndHash(db, scratch.dir('p15-vacuum')))
      },
    },
    { rounds: quick ? 2 : rounds },
  )
  await manager.dispose()
  return {
    id: 'P15',
    what: `ten rows of ${what}`,
    unit: 'ms',
    ...against('VACUUM INTO and sha256', compare(samples.ours, samples.vacuum)),
    stallMs: median(stalls),
    goals,
    note: `${Math.round(storedBytes / 1024)} KiB of chunks`,
  }
}

type Connection = ReturnType<StorageManager['open']>['db']

function vacuumAndHash(db: Connection, dir: string): void {
  const path = join(dir, 'copy.db')
  db.prepare('VACUUM INTO ?').run(path)
  createHash('sha256').update(readFileSync(path)).digest()
  rmSync(path)
}

/** Reads and hashes each chunk that holds a changed page; the bytes that were read. */
async function hashChunks(instant: DatabaseInstant): Promise<number> {
  const { changed, pageSize } = instant
  let bytes = 0
  let next = 0
  for (const { first, count } of changed) {
    const end = (first - 1 + count) * pageSize
    for (let at = Math.max(next, Math.floor(((first - 1) * pageSize) / CHUNK_BYTES) * CHUNK_BYTES); at < end;) {
      const chunk = await instant.read(at, CHUNK_BYTES)
      createHash('sha256').update(chunk).digest()
      bytes += chunk.length
      at += CHUNK_BYTES
      next = at
    }
  }
  return bytes
}
