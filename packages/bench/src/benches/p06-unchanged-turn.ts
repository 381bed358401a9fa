import { closeSync, fdatasync, mkdirSync, openSync, readFileSync, renameSync, writeSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import type { Bench } from '../bench.ts'
import { BenchSession } from '../bench-session.ts'
import { fsStore } from '../fs-store.ts'
import { alternate, compare, elapsedMs, median } from '../measure.ts'
import { walkFiles } from '../raw-tree.ts'
import { against } from '../row.ts'
import { LARGE, SMALL } from '../session-shape.ts'
import { withStall } from '../stall.ts'

const CONCURRENCY = 16
const syncData = promisify(fdatasync)

/** A turn that changes nothing but the journal: what the mirror layout stores all the same, beside a bare durable copy. */
export const unchangedTurnBench: Bench = {
  id: 'P6',
  title: 'turn with nothing changed, fs',
  async run({ scratch, quick }) {
    const shape = quick ? SMALL : LARGE
    const session = await BenchSession.open({ root: scratch.dir('p6'), core: fsStore(scratch.dir('p6-bucket')) })
    await session.grow(shape)
    const stalls: number[] = []
    const samples = await alternate(
      {
        ours: async () => {
          await session.work({ speak: false })
          const { value, stallMs } = await withStall(() => elapsedMs(() => session.endTurn()))
          stalls.push(stallMs)
          return value
        },
        copy: () => elapsedMs(() => copyDurably(session.engine.session.dir, scratch.dir('p6-copy'))),
      },
      { rounds: quick ? 1 : 3 },
    )
    await session.engine.abandon()
    await session.engine.stop()
    return [
      {
        id: 'P6',
        what: `turn with only the journal changed, ${shape.what}, fs`,
        unit: 'ms',
        ...against('durable copy', compare(samples.ours, samples.copy)),
        stallMs: median(stalls),
        goals: [],
      },
    ]
  },
}

/** Every file written, synced and renamed, sixteen at a time. */
async function copyDurably(root: string, dest: string): Promise<void> {
  const paths = walkFiles(root)
  for (const dir of new Set(paths.map((path) => dirname(path)))) mkdirSync(join(dest, dir), { recursive: true })
  const worker = async (): Promise<void> => {
    for (let path = paths.pop(); path !== undefined; path = paths.pop()) {
      const fd = openSync(join(dest, `${path}.new`), 'wx')
      writeSync(fd, readFileSync(join(root, path)))
      await syncData(fd)
      closeSync(fd)
      renameSync(join(dest, `${path}.new`), join(dest, path))
    }
  }
  await Promise.all(Array.from({ length: CONCURRENCY }, worker))
}
