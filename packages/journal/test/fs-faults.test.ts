import { inspect } from 'node:util'
import { isNexusError } from '@nexus/errors'
import { describe, expect, it } from 'vitest'
import { JournalReader, JournalWriter, rewind, type JournalFs } from '../src/index.ts'
import { event, range, seqsOf } from './support/events.ts'
import { faultyFs, systemError, type FaultyFs, type FsCall } from './support/faulty-fs.ts'
import { hurriedClock } from './support/hurried-clock.ts'
import { SimulatedDisk } from './support/simulated-disk.ts'
import { until } from './support/until.ts'

const DIR = '/journal'

/** What a run did before it ended, well or not. */
interface Run {
  ids: Map<number, string>
  /** Seqs up to this one were acknowledged as durable. */
  acknowledged: number
  error: unknown
}

/** Opens twice, so that a header, a torn line and sealed segments are met; turns, rotations, a snapshot. */
async function scenario(fs: JournalFs): Promise<Run> {
  const run: Run = { ids: new Map(), acknowledged: 0, error: undefined }
  try {
    for (let opening = 0; opening < 2; opening++) await turns(fs, run, opening)
  } catch (error) {
    run.error = error
  }
  return run
}

async function turns(fs: JournalFs, run: Run, opening: number): Promise<void> {
  const writer = await JournalWriter.open(DIR, {
    fsync: opening === 0 ? 'turn-boundary' : 'every-event',
    rotateBytes: 1000,
    sessionId: 's1',
    fs,
    clock: hurriedClock,
  })
  try {
    for (let turn = 0; turn < 3; turn++) {
      for (let i = 0; i < 4; i++) {
        const record = event('note', { turn, i, text: 'x'.repeat(60) })
        run.ids.set(writer.append(record, { writeThrough: i % 2 === 0 }), record.event_id)
        await writer.committed()
      }
      const { lastSeq } = writer
      await writer.turnEnded()
      run.acknowledged = lastSeq
      if (turn === 1) await writer.snapshot('/').catch((error: unknown) => expect(isNexusError(error)).toBe(true))
    }
  } finally {
    await writer.close()
  }
}

function newDisk(): SimulatedDisk {
  const disk = new SimulatedDisk()
  // A torn line from an earlier crash.
  disk.fs.mkdirSync(DIR)
  const fd = disk.fs.openSync(`${DIR}/events.jsonl`, 'a')
  disk.fs.writeSync(fd, Buffer.from('{"seq":1,"type":"a"}\n{"seq":2,"ty'))
  disk.fs.closeSync(fd)
  return disk
}

/** The disk after a run without faults. */
async function usedDisk(): Promise<SimulatedDisk> {
  const disk = newDisk()
  await scenario(disk.fs)
  return disk
}

/** Whatever failed, nothing acknowledged is gone, what is there is in order, and the journal opens and goes on. */
async function checkRecovery(disk: SimulatedDisk, faulty: FaultyFs, run: Run): Promise<string | undefined> {
  if (run.error !== undefined && !isNexusError(run.error)) return `rejected with ${inspect(run.error)}`
  if (faulty.open.size > 0) return `${faulty.open.size} files left open`
  const { fs } = disk
  const writer = await JournalWriter.open(DIR, {
    fsync: 'none',
    rotateBytes: 1,
    sessionId: 's1',
    fs,
    clock: hurriedClock,
  })
  const { lastSeq } = writer
  writer.append(event('after'))
  await writer.turnEnded()
  await writer.close()
  const reader = await JournalReader.open(DIR, { fs })
  const events = []
  for await (const envelope of reader) events.push(envelope)
  if (reader.damage.length > 0) return `damage ${JSON.stringify(reader.damage)}`
  if (lastSeq < run.acknowledged) return `seqs up to ${run.acknowledged} were acknowledged, ${lastSeq} are left`
  if (JSON.stringify(seqsOf(events)) !== JSON.stringify(range(1, lastSeq + 1))) return `seqs ${String(seqsOf(events))}`
  const foreign = events.find(
    ({ seq, event_id }) => run.ids.has(seq) && seq <= lastSeq && run.ids.get(seq) !== event_id,
  )
  return foreign && `seq ${foreign.seq} is another event`
}

/** Which errors the call can meet. */
function errorsOf(name: FsCall['name']): string[] {
  if (name === 'openSync') return ['EMFILE', 'ENOSPC', 'EIO']
  if (['closeSync', 'readSync', 'readdirSync', 'fstatSync'].includes(name)) return ['EIO']
  return ['ENOSPC', 'EIO']
}

describe('a file operation that fails', () => {
  it('once, wherever it is, costs nothing acknowledged and leaves a usable journal', async () => {
    const dry = faultyFs(() => undefined, newDisk().fs)
    expect((await scenario(dry)).error).toBeUndefined()
    const calls = dry.calls.map(({ name }) => name)
    expect(calls.length).toBeGreaterThan(150)
    const problems: string[] = []
    for (const [index, name] of calls.entries()) {
      for (const code of errorsOf(name)) {
        const disk = newDisk()
        const fs = faultyFs((call) => (call.index === index ? systemError(code) : undefined), disk.fs)
        const problem = await checkRecovery(disk, fs, await scenario(fs))
        if (problem) problems.push(`${code} at call ${index} (${name}): ${problem}`)
      }
    }
    expect(problems).toEqual([])
  })

  it('for a while, from wherever it is on, costs nothing that was taken once the disk works again', async () => {
    const dry = faultyFs(() => undefined, newDisk().fs)
    await scenario(dry)
    const problems: string[] = []
    for (let from = 0; from < dry.calls.length; from++) {
      const disk = newDisk()
      const failing = new Set([
        'writeSync',
        'fdatasync',
        'fsync',
        'fsyncSync',
        'openSync',
        'renameSync',
        'ftruncateSync',
      ])
      const fs = faultyFs(
        ({ index, name }) =>
          index >= from && index < from + 25 && failing.has(name) ? systemError('ENOSPC') : undefined,
        disk.fs,
      )
      const run = await scenario(fs)
      const problem = await checkRecovery(disk, fs, run)
      if (problem) problems.push(`from call ${from} on: ${problem}`)
    }
    expect(problems).toEqual([])
  })

  it('in a rewind leaves the old journal or the new one', async () => {
    const last = 25
    const dry = faultyFs(() => undefined, (await usedDisk()).fs)
    await rewind(DIR, 10, { lock: 'private', fs: dry })
    const problems: string[] = []
    for (const [index, { name }] of dry.calls.entries()) {
      const disk = await usedDisk()
      const fs = faultyFs((call) => (call.index === index ? systemError('EIO') : undefined), disk.fs)
      const error = await rewind(DIR, 10, { lock: 'private', fs }).then(
        () => undefined,
        (caught: unknown) => caught,
      )
      if (error !== undefined && !isNexusError(error)) problems.push(`call ${index} (${name}): ${inspect(error)}`)
      const writer = await JournalWriter.open(DIR, { fsync: 'none', rotateBytes: 1, sessionId: 's1', fs: disk.fs })
      if (writer.lastSeq !== 10 && writer.lastSeq !== last)
        problems.push(`call ${index} (${name}): ends at ${writer.lastSeq}`)
      await writer.close()
      if (fs.open.size > 0) problems.push(`call ${index} (${name}): files left open`)
    }
    expect(problems).toEqual([])
  })
})

it('the scenario rotates while it runs, or the faults would miss rotations', async () => {
  const disk = newDisk()
  const fs = faultyFs(() => undefined, disk.fs)
  await scenario(fs)
  await until(() => fs.open.size === 0, 'all files are closed')
  expect(disk.fs.readdirSync(DIR).filter((name) => name.startsWith('events-')).length).toBeGreaterThan(1)
})
