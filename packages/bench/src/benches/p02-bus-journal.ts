import { closeSync, openSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import type { Engine } from '@nexus/engine'
import { pino } from 'pino'
import type { Bench } from '../bench.ts'
import { lineOf, payloadOf } from '../event-lines.ts'
import { bootEngine } from '../local-engine.ts'
import { alternate, compare, median, ratePerSecond } from '../measure.ts'
import { against, ratioAtLeast, stallAtMost, type Row } from '../row.ts'
import type { Scratch } from '../scratch.ts'
import { withStall } from '../stall.ts'

const PLAIN = 'bench.event'
/** Written before its handlers run, being the call of a tool. */
const AHEAD = 'tool.invoke'
const BUFFER_BYTES = 64 * 1024
/** Events between two turns of the event loop, the same for every contender. */
const BURST = 500

/** An engine that only records, beside a logger and beside the bare writes. */
export const busJournalBench: Bench = {
  id: 'P2',
  title: 'bus and journal, 300 B events, no fsync',
  async run({ quick, scratch }) {
    const count = quick ? 15_000 : 60_000
    const engine = await bootEngine({ root: scratch.dir('p2'), journal: { fsync: 'none' } })
    const stop = engine.bus.subscribe(PLAIN, () => undefined)
    const stalls: Record<string, number[]> = { [PLAIN]: [], [AHEAD]: [] }
    const ours = async (type: string): Promise<number> => {
      const { value, stallMs } = await withStall(() => ratePerSecond(count, () => emitAll(engine, type, count)))
      stalls[type]?.push(stallMs)
      return value
    }
    const samples = await alternate(
      {
        plain: () => ours(PLAIN),
        ahead: () => ours(AHEAD),
        pino: () => logThroughPino(scratch, count / 4),
        buffered: () => writeLines(scratch, count, BUFFER_BYTES),
        single: () => writeLines(scratch, count, 0),
      },
      { rounds: quick ? 3 : 7 },
    )
    stop()
    await engine.stop()
    const stallOf = (type: string): Pick<Row, 'stallMs'> => ({ stallMs: median(stalls[type] ?? []) })
    const plain = { id: 'P2', unit: '/s' as const, ...stallOf(PLAIN) }
    return [
      {
        ...plain,
        what: 'plain events, buffered',
        ...against('pino + sonic-boom', compare(samples.plain, samples.pino)),
        goals: [ratioAtLeast(2), stallAtMost(5)],
      },
      {
        ...plain,
        what: 'plain events, buffered',
        ...against('stringify + 64 KiB writes', compare(samples.plain, samples.buffered)),
        goals: [ratioAtLeast(0.6), stallAtMost(5)],
      },
      {
        ...plain,
        ...stallOf(AHEAD),
        what: 'events written before their handlers',
        ...against('a write per event', compare(samples.ahead, samples.single)),
        goals: [ratioAtLeast(0.6), stallAtMost(5)],
      },
    ]
  },
}

async function inBursts(count: number, each: (n: number) => void): Promise<void> {
  for (let n = 0; n < count;) {
    for (const end = Math.min(n + BURST, count); n < end; n++) each(n)
    await setImmediate()
  }
}

async function emitAll({ bus, journal }: Engine, type: string, count: number): Promise<void> {
  await inBursts(count, (n) => void bus.emit(type, payloadOf(n)))
  await journal.barrier()
}

function writeLines(scratch: Scratch, count: number, bufferBytes: number): Promise<number> {
  const fd = openSync(join(scratch.dir('p2-lines'), 'lines.jsonl'), 'a')
  return ratePerSecond(count, async () => {
    let pending = ''
    await inBursts(count, (n) => {
      pending += `${JSON.stringify(lineOf(n + 1, PLAIN))}\n`
      if (pending.length < bufferBytes) return
      writeSync(fd, pending)
      pending = ''
    })
    if (pending !== '') writeSync(fd, pending)
    closeSync(fd)
  })
}

async function logThroughPino(scratch: Scratch, count: number): Promise<number> {
  const dest = join(scratch.dir('p2-pino'), 'lines.jsonl')
  const stream = pino.destination({ dest, minLength: BUFFER_BYTES, maxWrite: 2 * BUFFER_BYTES, sync: false })
  const logger = pino({ base: null, timestamp: false }, stream)
  await new Promise((resolve) => stream.once('ready', resolve))
  return ratePerSecond(count, async () => {
    await inBursts(count, (n) => logger.info(lineOf(n + 1, PLAIN)))
    await new Promise<void>((resolve) => {
      stream.once('close', resolve)
      stream.end()
    })
  })
}
