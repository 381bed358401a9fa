import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { ACTIVE_SEGMENT, JournalReader, JournalWriter } from '@nexus/journal'
import type { Bench } from '../bench.ts'
import { payloadOf } from '../event-lines.ts'
import { alternate, compare, median, ratePerSecond } from '../measure.ts'
import { against, oursAtMost, ratioAtLeast, type Row } from '../row.ts'
import { withStall } from '../stall.ts'

const MIB = 1024 * 1024
const EVENTS_PER_TURN = 1000
const ROTATE_BYTES = 4 * MIB
/** Of the journal that was never rotated: less than what forces a rotation. */
const UNROTATED_EVENTS = 200_000

/** Opening and reading a journal of a long life. */
export const longJournalBench: Bench = {
  id: 'P12',
  title: 'journal of 1,000,000 events',
  async run({ scratch, quick }) {
    const events = quick ? 30_000 : 1_000_000
    const rotated = scratch.dir('p12')
    await writeJournal(rotated, events, ROTATE_BYTES)
    const single = scratch.dir('p12-single')
    const singleEvents = quick ? 30_000 : UNROTATED_EVENTS
    await writeJournal(single, singleEvents, 1024 * MIB)
    const opening = await alternate(
      { rotated: () => openMs(rotated), single: () => openMs(single) },
      { rounds: quick ? 3 : 9 },
    )
    return [
      openRow(`open for append, ${events.toLocaleString('en')} events in segments of 4 MiB`, opening.rotated),
      openRow(`open for append, ${singleEvents.toLocaleString('en')} events in one segment`, opening.single),
      await measureReading(rotated, events, quick),
    ]
  },
}

async function measureReading(dir: string, events: number, quick: boolean): Promise<Row> {
  const stalls: number[] = []
  // The lines of the last, unsealed segment stand for all: parsing holds no more than one of them in memory.
  const lines = await textOf(dir)
  const reading = await alternate(
    {
      ours: async () => {
        const { value, stallMs } = await withStall(() => ratePerSecond(events, () => readAll(dir, events)))
        stalls.push(stallMs)
        return value
      },
      parse: () => ratePerSecond(events, () => parseTimes(lines, events)),
    },
    { rounds: 3, warmups: quick ? 1 : 0 },
  )
  return {
    id: 'P12',
    what: `read ${events.toLocaleString('en')} events, sealed segments expanded`,
    unit: '/s',
    ...against('JSON.parse', compare(reading.ours, reading.parse)),
    stallMs: median(stalls),
    goals: [ratioAtLeast(0.5)],
  }
}

function openRow(what: string, samples: readonly number[]): Row {
  return { id: 'P12', what, unit: 'ms', ours: median(samples), goals: [oursAtMost(50)] }
}

async function writeJournal(dir: string, events: number, rotateBytes: number): Promise<void> {
  const writer = await JournalWriter.open(dir, { fsync: 'none', rotateBytes, sessionId: 'bench' })
  for (let n = 1; n <= events; n++) {
    const common = { ts: new Date().toISOString(), source: 'core', session_id: 'bench', depth: 0 }
    writer.append({ ...common, type: 'bench.event', event_id: `event-${n}`.padEnd(26, 'x'), payload: payloadOf(n) })
    if (n % EVENTS_PER_TURN === 0) await writer.turnEnded()
  }
  await writer.close()
}

async function openMs(dir: string): Promise<number> {
  const startMs = performance.now()
  const writer = await JournalWriter.open(dir, { fsync: 'none', rotateBytes: ROTATE_BYTES, sessionId: 'bench' })
  const openedMs = performance.now() - startMs
  await writer.close()
  return openedMs
}

async function readAll(dir: string, events: number): Promise<void> {
  let seen = 0
  for await (const event of await JournalReader.open(dir)) if (event.seq > 0) seen++
  if (seen !== events) throw new Error(`${seen} of ${events} events were read`)
}

async function textOf(dir: string): Promise<string[]> {
  const lines = readFileSync(join(dir, ACTIVE_SEGMENT), 'utf8')
    .split('\n')
    .filter((line) => line !== '')
  if (lines.length > 0) return lines
  const last: string[] = []
  for await (const event of await JournalReader.open(dir))
    if (last.push(JSON.stringify(event)) === EVENTS_PER_TURN) break
  return last
}

function parseTimes(lines: readonly string[], times: number): void {
  let seen = 0
  for (let n = 0; n < times; n++) {
    if ((JSON.parse(lines[n % lines.length] as string) as { seq: number }).seq > 0) seen++
  }
  if (seen !== times) throw new Error('a line has no seq')
}
