import { readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { ACTIVE_SEGMENT, JournalWriter } from '@nexus/journal'
import { compress } from 'zstd-napi'
import type { Bench } from '../bench.ts'
import { payloadOf } from '../event-lines.ts'
import { alternate, compare, elapsedMs, median } from '../measure.ts'
import { against, ratioAtMost, stallAtMost } from '../row.ts'
import { withStall } from '../stall.ts'

const SEGMENT_BYTES = 4 * 1024 * 1024

/** Sealing a full segment, to its durable end, beside compressing the same bytes at once in memory. */
export const rotationBench: Bench = {
  id: 'P14',
  title: 'rotation of 4 MiB',
  async run({ scratch, quick }) {
    const stalls: number[] = []
    let text = Buffer.alloc(0)
    const samples = await alternate(
      {
        ours: async () => {
          const dir = scratch.dir('p14')
          const writer = await fullJournal(dir)
          text = readFileSync(join(dir, ACTIVE_SEGMENT))
          const { value, stallMs } = await withStall(() => elapsedMs(() => rotate(writer)))
          stalls.push(stallMs)
          rmSync(dir, { recursive: true })
          return value
        },
        zstd: () => elapsedMs(() => compress(text)),
      },
      { rounds: quick ? 5 : 15, warmups: 2 },
    )
    return [
      {
        id: 'P14',
        what: 'rotation of a 4 MiB segment, with its fsyncs',
        unit: 'ms',
        ...against('one-shot zstd', compare(samples.ours, samples.zstd)),
        stallMs: median(stalls),
        goals: [ratioAtMost(2.5), stallAtMost(10)],
      },
    ]
  },
}

/** A journal whose next turn end rotates, with everything in it written and synced. */
async function fullJournal(dir: string): Promise<JournalWriter> {
  const options = { fsync: 'turn-boundary' as const, rotateBytes: SEGMENT_BYTES, sessionId: 'bench' }
  const writer = await JournalWriter.open(dir, options)
  let bytes = 0
  for (let n = 1; bytes < SEGMENT_BYTES; n++) {
    const payload = payloadOf(n)
    const common = { ts: new Date().toISOString(), source: 'core', session_id: 'bench', depth: 0 }
    writer.append({ ...common, type: 'bench.event', event_id: `event-${n}`.padEnd(26, 'x'), payload })
    bytes += 270
  }
  await writer.barrier()
  return writer
}

/** Closing waits for the rotation that the end of the turn began. */
async function rotate(writer: JournalWriter): Promise<void> {
  await writer.turnEnded()
  await writer.close()
}
