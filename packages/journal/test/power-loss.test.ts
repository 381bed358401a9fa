import { describe, expect, it } from 'vitest'
import { JournalReader, JournalWriter, listArchives, rewind, type FsyncMode, type JournalFs } from '../src/index.ts'
import { event, range, seqsOf } from './support/events.ts'
import { hurriedClock } from './support/hurried-clock.ts'
import { nothingArrived, SimulatedDisk, type PowerLoss } from './support/simulated-disk.ts'

const DIR = '/sessions/s1/journal'

/** What a run was told: seqs up to this one are durable. */
interface Acknowledged {
  lastSeq: number
  ids: Map<number, string>
}

function openOn(fs: JournalFs, fsync: FsyncMode = 'turn-boundary'): Promise<JournalWriter> {
  return JournalWriter.open(DIR, { fsync, rotateBytes: 1500, sessionId: 's1', fs, clock: hurriedClock })
}

async function eventsOn(fs: JournalFs): Promise<{ seqs: number[]; ids: Map<number, string> }> {
  const reader = await JournalReader.open(DIR, { fs })
  const events = []
  for await (const batch of reader.batches()) events.push(...batch)
  expect(reader.damage.filter(({ kind }) => kind !== 'torn' && kind !== 'malformed')).toEqual([])
  return { seqs: seqsOf(events), ids: new Map(events.map(({ seq, event_id }) => [seq, event_id])) }
}

/** Two runs of a few turns each. Events keep coming while syncs and rotations of earlier turns are going on. */
async function scenario(fs: JournalFs, fsync: FsyncMode, acknowledged: Acknowledged): Promise<void> {
  for (let run = 0; run < 2; run++) {
    const writer = await openOn(fs, fsync)
    const append = (type: string, writeThrough: boolean): number => {
      const record = event(type, { text: 'é'.repeat(20) })
      const seq = writer.append(record, { writeThrough })
      acknowledged.ids.set(seq, record.event_id)
      return seq
    }
    const acknowledge = (seq: number): void => {
      acknowledged.lastSeq = Math.max(acknowledged.lastSeq, seq)
    }
    const emitter = async (events: number): Promise<void> => {
      for (let i = 0; i < events; i++) {
        const seq = append('note', i % 2 === 0)
        const committed = writer.committed()
        if (committed) await committed.then(() => acknowledge(seq))
        else await new Promise(setImmediate)
      }
    }
    const chatter = emitter(12)
    for (let turn = 0; turn < 3; turn++) {
      await emitter(2)
      const seq = append('agent.turn.end', true)
      await writer.turnEnded()
      acknowledge(seq)
    }
    await chatter
    const { lastSeq } = writer
    await writer.close()
    acknowledge(lastSeq)
  }
}

/** A small generator, so that a failure can be repeated from its seed. */
function randomLoss(seed: number): PowerLoss {
  let state = seed * 2654435761 + 1
  const below = (limit: number): number => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return Math.floor((state / 2 ** 32) * limit)
  }
  return { arrived: (most) => below(most + 1), torn: (most) => below(most + 1) }
}

/** Events of the scenario. */
const END = 2 * (12 + 3 * 3)

const LOSSES: [string, PowerLoss][] = [
  ['nothing unsynced arrived', nothingArrived],
  ['everything arrived', { arrived: (most) => most, torn: () => 0 }],
  ...range(1, 4).map((seed): [string, PowerLoss] => [`some arrived (seed ${seed})`, randomLoss(seed)]),
]

interface Instant {
  disk: SimulatedDisk
  loss: string
  step: number
  acknowledged: number
}

/** Runs the scenario and keeps what the disk would hold if the power went right before each step. */
async function instants(
  work: (fs: JournalFs, acknowledged: Acknowledged) => Promise<void>,
  failing?: { sync: number; how: 'dropped' | 'forgotten' },
): Promise<{ all: Instant[]; ids: Map<number, string> }> {
  const disk = new SimulatedDisk()
  // Made durable by whoever makes sessions.
  disk.fs.mkdirSync('/sessions/s1')
  for (const dir of ['/', '/sessions']) disk.fs.fsyncSync(disk.fs.openSync(dir, 'r'))
  const acknowledged: Acknowledged = { lastSeq: 0, ids: new Map() }
  const all: Instant[] = []
  let syncs = 0
  disk.failSync = (path) => (path.endsWith('events.jsonl') && ++syncs === failing?.sync ? failing.how : undefined)
  disk.beforeStep = (step) => {
    for (const [loss, how] of LOSSES) {
      all.push({ disk: disk.afterPowerLoss(how), loss, step, acknowledged: acknowledged.lastSeq })
    }
    // The process dies first; whoever comes after it finds what was never synced, and must not rely on it. That it may
    // have been told that a sync failed is beyond what the next process can know.
    if (!failing)
      all.push({ disk: disk.afterKill(), loss: 'the process was killed', step, acknowledged: acknowledged.lastSeq })
  }
  await work(disk.fs, acknowledged)
  expect(disk.openFiles).toBe(2)
  return { all, ids: acknowledged.ids }
}

/**
 * After a power loss everything acknowledged is there, in one unbroken sequence, and the journal goes on; and what it
 * acknowledges then survives another power loss.
 */
async function expectSurvived({ disk, loss, step, acknowledged }: Instant, ids: Map<number, string>): Promise<void> {
  const writer = await openOn(disk.fs)
  const { lastSeq } = writer
  writer.append(event('after'))
  await writer.turnEnded()
  await writer.close()
  const found = await eventsOn(disk.afterPowerLoss(nothingArrived).fs)
  const foreign = [...found.ids].filter(([seq, id]) => seq <= lastSeq && id !== ids.get(seq))
  const lost = Math.max(0, acknowledged - lastSeq)
  expect({ loss, step, lost, seqs: found.seqs, foreign, open: disk.openFiles }).toEqual({
    loss,
    step,
    lost: 0,
    seqs: range(1, lastSeq + 1),
    foreign: [],
    open: 0,
  })
}

async function survivors(all: readonly Instant[], ids: Map<number, string>): Promise<number> {
  let survived = 0
  for (const instant of all) {
    await expectSurvived(instant, ids)
    survived++
  }
  return survived
}

describe('a power loss', () => {
  it.each(['turn-boundary', 'every-event'] as const)(
    'before any step under %s takes nothing acknowledged',
    async (fsync) => {
      const { all, ids } = await instants((fs, acknowledged) => scenario(fs, fsync, acknowledged))
      expect(all.length).toBeGreaterThan(400)
      expect(all.at(-1)?.acknowledged).toBeGreaterThan(30)
      expect(await survivors(all, ids)).toBe(all.length)
    },
  )

  it.each(
    range(1, 6).flatMap((sync) => [
      { sync, how: 'dropped' as const },
      { sync, how: 'forgotten' as const },
    ]),
  )('after sync $sync failed, and the kernel has $how the pages, takes nothing acknowledged', async (failing) => {
    const { all, ids } = await instants((fs, acknowledged) => scenario(fs, 'turn-boundary', acknowledged), failing)
    expect(await survivors(all, ids)).toBe(all.length)
  })

  it('under none leaves an unbroken journal, however much of it is gone', async () => {
    const { all, ids } = await instants((fs, acknowledged) =>
      scenario(fs, 'none', { ids: acknowledged.ids, lastSeq: 0 }),
    )
    expect(await survivors(all, ids)).toBe(all.length)
  })

  it('in a rewind leaves the old journal or the new one', async () => {
    const { all, ids } = await instants(async (fs, acknowledged) => {
      await scenario(fs, 'turn-boundary', acknowledged)
      const end = acknowledged.lastSeq
      acknowledged.lastSeq = 12
      await rewind(DIR, 12, { lock: 'private', fs })
      expect((await eventsOn(fs)).seqs).toEqual(range(1, 12))
      expect(end).toBe(END)
    })
    expect(await survivors(all, ids)).toBe(all.length)
    const rewinding = all.filter(({ acknowledged }) => acknowledged === 12)
    const ends = new Set<number>()
    for (const { disk } of rewinding) {
      const end = (await eventsOn(disk.fs)).seqs.at(-2) ?? 0
      ends.add(end)
      // What was rewound is never gone.
      const kept = (await listArchives(DIR, { fs: disk.afterPowerLoss(nothingArrived).fs })).map(
        ({ lastSeq }) => lastSeq,
      )
      expect(end === END || kept.includes(END)).toBe(true)
    }
    expect([...ends].toSorted((a, b) => a - b)).toEqual([12, END])
  })
})
