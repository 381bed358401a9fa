import { closeSync, fdatasync, openSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { JournalWriter } from '@nexus/journal'
import type { Bench } from '../bench.ts'
import { lineOf, payloadOf } from '../event-lines.ts'
import { bootEngine } from '../local-engine.ts'
import { alternate, compare, ratePerSecond } from '../measure.ts'
import { against, ratioAtLeast } from '../row.ts'
import type { Scratch } from '../scratch.ts'

const TYPE = 'bench.event'
const EMITTERS = 20
const ROTATE_BYTES = 1024 * 1024 * 1024
const syncData = promisify(fdatasync)

/** Twenty emitters, each waiting for its event to be on the disk before it goes on. */
export const everyEventBench: Bench = {
  id: 'P3',
  title: 'journal, a sync for every event',
  async run({ quick, scratch }) {
    const count = quick ? 400 : 2_000
    const options = { fsync: 'every-event' as const, rotateBytes: ROTATE_BYTES, sessionId: 'bench' }
    const writer = await JournalWriter.open(scratch.dir('p3'), options)
    const engine = await bootEngine({ root: scratch.dir('p3-engine'), journal: { fsync: 'every-event' } })
    const samples = await alternate(
      {
        writer: () => ratePerSecond(count, () => byEmitters(count, (n) => appendOne(writer, n))),
        bus: () => ratePerSecond(count, () => byEmitters(count, (n) => engine.bus.emit(TYPE, payloadOf(n)))),
        raw: () => groupedSyncs(scratch, count),
      },
      { rounds: quick ? 3 : 9 },
    )
    await writer.close()
    await engine.stop()
    return [
      {
        id: 'P3',
        what: `${EMITTERS} appenders, journal alone`,
        unit: '/s',
        ...against('grouped fdatasync', compare(samples.writer, samples.raw)),
        goals: [ratioAtLeast(0.8)],
      },
      {
        id: 'P3',
        what: `${EMITTERS} emitters, through the bus`,
        unit: '/s',
        ...against('grouped fdatasync', compare(samples.bus, samples.raw)),
        goals: [ratioAtLeast(0.8)],
      },
    ]
  },
}

async function byEmitters(count: number, emit: (n: number) => Promise<void> | undefined): Promise<void> {
  let next = 0
  const emitter = async (): Promise<void> => {
    while (next < count) await emit(next++)
  }
  await Promise.all(Array.from({ length: EMITTERS }, emitter))
}

function appendOne(writer: JournalWriter, n: number): Promise<void> | undefined {
  const { ts, type, event_id, source, session_id, payload } = lineOf(n, TYPE)
  writer.append({ ts, type, event_id, source, session_id, depth: 0, payload })
  return writer.committed()
}

/** The same lines, twenty to a write and a sync. */
async function groupedSyncs(scratch: Scratch, count: number): Promise<number> {
  const fd = openSync(join(scratch.dir('p3-raw'), 'lines.jsonl'), 'a')
  const rate = await ratePerSecond(count, async () => {
    for (let n = 0; n < count; n += EMITTERS) {
      let lines = ''
      for (let emitter = 0; emitter < EMITTERS; emitter++) lines += `${JSON.stringify(lineOf(n + emitter + 1, TYPE))}\n`
      writeSync(fd, lines)
      await syncData(fd)
    }
  })
  closeSync(fd)
  return rate
}
