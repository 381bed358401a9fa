import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { openStorageManager, type StorageManager } from '@nexus/storage'
import Database from 'better-sqlite3'
import type { Bench, BenchContext } from '../bench.ts'
import { fillDatabase } from '../database.ts'
import { alternate, compare, elapsedMs, median } from '../measure.ts'
import { against, ratioAtMost, stallAtMost, type Goal, type Row } from '../row.ts'
import { withStall, type Stalled } from '../stall.ts'

const PLUGIN = 'bench.db'
const MIB = 1024 * 1024

interface Size {
  what: string
  bytes: number
  /** Copies per sample: a single small one is too short to time. */
  copies: number
  goals: readonly Goal[]
}

const SIZES: readonly Size[] = [
  { what: '100 rows', bytes: 32 * 1024, copies: 20, goals: [ratioAtMost(1.5), stallAtMost(10)] },
  { what: '28 MiB', bytes: 28 * MIB, copies: 1, goals: [ratioAtMost(1.15), stallAtMost(10)] },
  { what: '117 MiB', bytes: 117 * MIB, copies: 1, goals: [ratioAtMost(1.15), stallAtMost(10)] },
]

/** A copy of a database that was just written to, checkpoint included, beside VACUUM INTO on this thread. */
export const storageSnapshotBench: Bench = {
  id: 'P4',
  title: 'storage snapshot',
  async run(context) {
    const rows: Row[] = []
    for (const size of context.quick ? SIZES.slice(0, 2) : SIZES) rows.push(await measure(size, context))
    return rows
  },
}

async function measure({ what, bytes, copies, goals }: Size, { scratch, quick }: BenchContext): Promise<Row> {
  const sessionDir = scratch.dir('p4')
  const manager = openStorageManager({ sessionDir, storageRoot: scratch.dir('p4-root') })
  const { db, path } = manager.open('session', PLUGIN)
  fillDatabase(db, bytes)
  const raw = new Database(path)
  const touch = db.prepare('UPDATE items SET body = ? WHERE id = 1')
  const stalls: number[] = []
  let changes = 0
  // What was copied is removed at once, which for a single file costs nothing that the next copy would feel.
  const averageMs = async (copy: (dir: string) => unknown): Promise<Stalled<number>> => {
    const total = { value: 0, stallMs: 0 }
    for (let n = 0; n < copies; n++) {
      const dir = scratch.dir('p4-copy')
      touch.run(`change ${++changes}`)
      const { value, stallMs } = await withStall(() => elapsedMs(() => copy(dir)))
      total.value += value / copies
      total.stallMs = Math.max(total.stallMs, stallMs)
      rmSync(dir, { recursive: true })
    }
    return total
  }
  const samples = await alternate(
    {
      ours: async () => {
        const { value, stallMs } = await averageMs((dir) => snapshot(manager, dir))
        stalls.push(stallMs)
        return value
      },
      raw: async () => (await averageMs((dir) => raw.prepare('VACUUM INTO ?').run(join(dir, 'copy.db')))).value,
    },
    { rounds: quick ? 2 : 7 },
  )
  raw.close()
  await manager.dispose()
  return {
    id: 'P4',
    what: `storage snapshot, ${what}`,
    unit: 'ms',
    ...against('VACUUM INTO', compare(samples.ours, samples.raw)),
    stallMs: median(stalls),
    goals,
  }
}

async function snapshot(manager: StorageManager, dir: string): Promise<void> {
  const copies = await manager.snapshot('session', dir)
  if (copies.length !== 1) throw new Error(`${copies.length} databases were copied, not one`)
}
