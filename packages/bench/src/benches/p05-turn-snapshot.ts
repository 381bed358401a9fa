import { closeSync, fdatasyncSync, openSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { createMemoryBackend } from '@nexus/objectstore-memory-test'
import Database from 'better-sqlite3'
import type { Bench, BenchContext } from '../bench.ts'
import { BenchSession } from '../bench-session.ts'
import { alternate, compare, elapsedMs, median } from '../measure.ts'
import { hashFile, walkFiles } from '../raw-tree.ts'
import { against, oursAtMost, ratioAtMost, stallAtMost, type Row } from '../row.ts'
import { LARGE, SMALL, TINY, WITH_BLOBS, type SessionShape } from '../session-shape.ts'
import { withStall } from '../stall.ts'

/** The end of a turn with a store that costs next to nothing, beside the work that no layout of this kind can avoid. */
export const turnSnapshotBench: Bench = {
  id: 'P5',
  title: 'turn snapshot to memory-test',
  async run(context) {
    const rows: Row[] = []
    const shapes = context.quick ? [TINY, SMALL] : [TINY, SMALL, LARGE, WITH_BLOBS]
    for (const shape of shapes) rows.push(await measure(shape, context))
    return rows
  },
}

async function measure(shape: SessionShape, { scratch, quick }: BenchContext): Promise<Row> {
  const session = await BenchSession.open({ root: scratch.dir('p5'), backend: createMemoryBackend() })
  await session.grow(shape)
  const bound = new LowerBound(session, scratch.dir('p5-bound'))
  const stalls: number[] = []
  const small = shape.objects < SMALL.objects
  const samples = await alternate(
    {
      ours: async () => {
        await session.work()
        const { value, stallMs } = await withStall(() => elapsedMs(() => session.endTurn()))
        stalls.push(stallMs)
        return value
      },
      bound: () => elapsedMs(() => bound.run()),
    },
    { rounds: quick ? 3 : small ? 21 : 9, warmups: 2 },
  )
  bound.close()
  await session.engine.abandon()
  await session.engine.stop()
  const floor = small ? [oursAtMost(6)] : []
  return {
    id: 'P5',
    what: `end of a turn, ${shape.what}`,
    unit: 'ms',
    ...against('lower bound', compare(samples.ours, samples.bound)),
    stallMs: median(stalls),
    goals: [ratioAtMost(1.5), ...floor, stallAtMost(15)],
  }
}

/**
 * Walk, read and hash what the layout stores anew at every turn (not blobs: their names are their digests), copy the
 * database, sync once.
 */
class LowerBound {
  readonly #root: string
  readonly #dir: string
  readonly #db: Database.Database
  readonly #fd: number
  #copies = 0

  constructor(session: BenchSession, dir: string) {
    this.#root = session.engine.session.dir
    this.#dir = dir
    this.#db = new Database(session.databasePath)
    this.#db.pragma('synchronous = OFF')
    this.#fd = openSync(join(dir, 'log'), 'a')
  }

  run(): void {
    for (const path of walkFiles(this.#root)) {
      if (!path.startsWith('blobs/') && !path.includes('/store.db')) hashFile(`${this.#root}/${path}`)
    }
    const copy = join(this.#dir, `${++this.#copies}.db`)
    this.#db.prepare('VACUUM INTO ?').run(copy)
    hashFile(copy)
    writeSync(this.#fd, 'one event\n')
    fdatasyncSync(this.#fd)
  }

  close(): void {
    this.#db.close()
    closeSync(this.#fd)
  }
}
