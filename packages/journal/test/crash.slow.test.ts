import { fork } from 'node:child_process'
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { FAILPOINTS, verify } from '../src/index.ts'
import { event, openWriter, range, readAll, seqsOf } from './support/events.ts'
import { tempDir } from './support/temp-dir.ts'

const child = fileURLToPath(new URL('./crash-child.ts', import.meta.url))

interface Crash {
  scenario: string
  point: string
  /** Which visit is the last. */
  nth: number
  /** Makes the directory what the scenario begins with. */
  prepare?: (dir: string) => Promise<void>
}

/** Runs a scenario in a child until it dies. Returns what was acknowledged, as id by seq. */
async function crash(dir: string, { scenario, point, nth }: Crash): Promise<Map<number, string>> {
  const ackPath = `${dir}.acks`
  writeFileSync(ackPath, '')
  const args = [scenario, dir, ackPath, point, String(nth)]
  const running = fork(child, args, { execArgv: process.execArgv, stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
  const signal = await new Promise<NodeJS.Signals | null>((resolve) => running.once('exit', (_, by) => resolve(by)))
  expect(signal, `${point} was reached`).toBe('SIGKILL')
  const acks = readFileSync(ackPath, 'utf8').split('\n').slice(0, -1)
  return new Map(acks.map((line) => [Number(line.split(' ')[0]), line.split(' ')[1] ?? '']))
}

/** Everything acknowledged is there, once, and nothing is damaged but a torn end. */
async function expectAcknowledged(dir: string, acks: ReadonlyMap<number, string>): Promise<number> {
  const events = existsSync(`${dir}/header.json`) ? await readAll(dir) : []
  expect(seqsOf(events)).toEqual(range(1, events.length))
  const ids = new Map(events.map(({ seq, event_id }) => [seq, event_id]))
  for (const [seq, id] of acks) expect(ids.get(seq)).toBe(id)
  return events.length
}

/** The directory is a journal like any other again: opens, goes on where it was, rotates, reads once each. */
async function expectUsable(dir: string, events: number): Promise<void> {
  const writer = await openWriter(dir, { rotateBytes: 1 })
  expect(writer.append(event('after the crash'))).toBe(events + 1)
  await writer.turnEnded()
  await writer.close()
  expect(await verify(dir)).toMatchObject({ ok: true, events: events + 1, firstSeq: 1 })
  expect(readdirSync(dir).filter((name) => name.startsWith('.nexus-tmp-') || name.startsWith('rewind'))).toEqual([])
}

/** 40 events in two sealed segments and an active one. */
async function prepareJournal(dir: string): Promise<void> {
  for (const count of [10, 20, 10]) {
    const writer = await openWriter(dir, { rotateBytes: 1 })
    for (let i = 0; i < count; i++) writer.append(event('a', { text: 'x'.repeat(50) }))
    if (count > 0 && writer.lastSeq < 40) await writer.turnEnded()
    await writer.close()
  }
}

async function prepareTorn(dir: string): Promise<void> {
  await prepareJournal(dir)
  appendFileSync(`${dir}/events.jsonl`, '{"seq":41,"type":"io.inp')
}

async function prepareNoNewline(dir: string): Promise<void> {
  await prepareJournal(dir)
  truncateSync(`${dir}/events.jsonl`, statSync(`${dir}/events.jsonl`).size - 1)
}

async function prepareOverlap(dir: string): Promise<void> {
  await prepareJournal(dir)
  const lines = readFileSync(`${dir}/events.jsonl`)
  const writer = await openWriter(dir, { rotateBytes: 1 })
  await writer.turnEnded()
  await writer.close()
  writeFileSync(`${dir}/events.jsonl`, lines)
}

const OPEN: Record<string, (dir: string) => Promise<void>> = {
  'open:header-written': async (dir) => {
    mkdirSync(dir)
  },
  'open:torn-part-written': prepareTorn,
  'open:torn-cut': prepareTorn,
  'open:newline-added': prepareNoNewline,
  'open:overlap-found': prepareOverlap,
}

/** Places that are passed often are visited early and late. */
function crashesAt(point: string): Crash[] {
  const open = OPEN[point]
  if (open) return [{ scenario: 'open', point, nth: 1, prepare: open }]
  if (point.startsWith('rewrite:')) return [{ scenario: 'sync-fails', point, nth: 1 }]
  if (point.startsWith('rewind:')) {
    return [
      { scenario: 'rewind', point, nth: 1, prepare: prepareJournal },
      { scenario: 'restore', point, nth: 1, prepare: prepareJournal },
    ]
  }
  if (point.startsWith('append:')) return [1, 7, 20].map((nth) => ({ scenario: 'turns', point, nth }))
  if (point.startsWith('sync:') || point === 'rotate:slice')
    return [1, 2].map((nth) => ({ scenario: 'turns', point, nth }))
  return [{ scenario: 'turns', point, nth: 1 }]
}

/** How many events a journal may hold after a crash that acknowledged nothing new. */
function possibleCounts({ scenario, point }: Crash, events: number): number[] {
  if (scenario === 'rewind' || scenario === 'restore') return [25, 40]
  if (scenario === 'open') return [point === 'open:header-written' ? 0 : 40]
  return [events]
}

const crashes: Crash[] = [
  ...FAILPOINTS.flatMap(crashesAt),
  ...[1, 5, 9].map((nth) => ({ scenario: 'torn-line', point: 'in the middle of a write', nth })),
  ...[1, 2].map((nth) => ({ scenario: 'torn-segment', point: 'in the middle of a compressed write', nth })),
]

describe('kill -9', () => {
  it.concurrent.for(crashes)(
    'at $point in $scenario, visit $nth, loses nothing acknowledged',
    async (each, { onTestFinished }) => {
      const dir = `${tempDir(onTestFinished)}/journal`
      await each.prepare?.(dir)
      const acks = await crash(dir, each)
      const events = await expectAcknowledged(dir, acks)
      expect(possibleCounts(each, events)).toContain(events)
      await expectUsable(dir, events)
    },
  )
})
