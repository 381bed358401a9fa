import { join } from 'node:path'
import type { Bench } from '../bench.ts'
import { BenchSession } from '../bench-session.ts'
import { fsStore } from '../fs-store.ts'
import { prepareEngine } from '../local-engine.ts'
import { alternate, compare, elapsedMs, median } from '../measure.ts'
import { copyTree } from '../raw-tree.ts'
import { against, ratioAtMost } from '../row.ts'
import type { Scratch } from '../scratch.ts'
import { LARGE, SMALL } from '../session-shape.ts'
import { withStall } from '../stall.ts'

/** Resuming a session on a host that has never seen it: the boot with all that belongs to it, every digest checked. */
export const hydrationBench: Bench = {
  id: 'P7',
  title: 'hydration, fs',
  async run({ scratch, quick }) {
    const shape = quick ? SMALL : LARGE
    const bucket = scratch.dir('p7-bucket')
    const session = await BenchSession.open({ root: scratch.dir('p7-origin'), core: fsStore(bucket) })
    await session.grow(shape)
    const { sessionId } = session.engine
    await session.engine.stop()
    const stalls: number[] = []
    const samples = await alternate(
      {
        ours: () => resumeMs(sessionId, bucket, scratch, stalls),
        copy: () => elapsedMs(() => copyTree(join(bucket, 'sessions', sessionId), scratch.dir('p7-copy'))),
      },
      { rounds: quick ? 2 : 5 },
    )
    return [
      {
        id: 'P7',
        what: `boot that hydrates ${shape.what}, verified`,
        unit: 'ms',
        ...against('read + sha256 + write', compare(samples.ours, samples.copy)),
        stallMs: median(stalls),
        goals: [ratioAtMost(1.5)],
      },
    ]
  },
}

async function resumeMs(sessionId: string, bucket: string, scratch: Scratch, stalls: number[]): Promise<number> {
  const engine = await prepareEngine({
    root: scratch.dir('p7-host'),
    core: fsStore(bucket),
    engine: { recallSessionId: sessionId },
  })
  const { value, stallMs } = await withStall(() => elapsedMs(() => engine.boot()))
  stalls.push(stallMs)
  // Not ended cleanly, for that would store it all again.
  await engine.abandon()
  await engine.stop()
  return value
}
