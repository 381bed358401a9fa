import { readdirSync, readFileSync } from 'node:fs'
import type { NexusError } from '@nexus/errors'
import { describe, expect, it } from 'vitest'
import { event, openWriter, range, readAll, seqsOf } from '../../test/support/events.ts'
import { faultyFs, systemError, type FsCall } from '../../test/support/faulty-fs.ts'
import { ManualClock } from '../../test/support/manual-clock.ts'
import { tempDir } from '../../test/support/temp-dir.ts'
import { until } from '../../test/support/until.ts'
import { verify } from '../read/verify.ts'
import type { JournalWriter } from '../write/writer.ts'

/** A disk that can be broken and mended. */
class Disk {
  fault: ((call: FsCall) => Error | number | undefined) | undefined
  readonly fs = faultyFs((call) => this.fault?.(call))
}

/** The call writes to, or syncs, the active segment. */
function isAppend({ name }: FsCall): boolean {
  return name === 'writeSync'
}

/** Lets retries happen until the writer works again. */
async function mended(writer: JournalWriter, clock: ManualClock): Promise<void> {
  await until(() => {
    // Only up to a retry: barriers have deadlines on the same clock, and real file operations take their time.
    if (clock.nextInMs <= 2000) clock.advance(clock.nextInMs)
    return writer.behind === undefined
  }, 'the disk works again')
}

async function broken(writer: JournalWriter): Promise<void> {
  await until(() => writer.behind !== undefined, 'the disk fails')
}

/** The promise, and a note of what it was rejected with; awaited later. */
function rejection(promise: Promise<unknown> | undefined): Promise<unknown> {
  return Promise.resolve(promise).then(
    () => undefined,
    (error: unknown) => error,
  )
}

describe('a write that fails', () => {
  it('cuts a partly written line back, keeps the events, and writes them when the disk works again', async () => {
    const dir = tempDir()
    const disk = new Disk()
    const clock = new ManualClock()
    const errors: NexusError[] = []
    const writer = await openWriter(dir, { fs: disk.fs, clock, onError: (error) => errors.push(error) })
    writer.append(event('a'), { writeThrough: true })
    let calls = 0
    disk.fault = (call) => {
      if (!isAppend(call)) return undefined
      return calls++ % 2 === 0 ? 20 : systemError('ENOSPC')
    }
    expect(writer.append(event('b'), { writeThrough: true })).toBe(2)
    expect(writer.append(event('c'))).toBe(3)
    expect(errors).toHaveLength(1)
    expect(writer.behind).toMatchObject({ code: 'LOCAL_IO', cause: { code: 'ENOSPC' } })
    clock.advance(1000)
    expect(errors).toHaveLength(1)
    disk.fault = undefined
    clock.advance(5000)
    expect(writer.behind).toBeUndefined()
    await writer.close()
    expect(seqsOf(await readAll(dir))).toEqual([1, 2, 3])
    expect(await verify(dir)).toMatchObject({ ok: true, duplicates: 0 })
    expect(clock.pending).toBe(0)
  })

  it('never lets a half line stand before the next one, even when cutting it back fails too', async () => {
    const dir = tempDir()
    const disk = new Disk()
    const clock = new ManualClock()
    const writer = await openWriter(dir, { fs: disk.fs, clock })
    disk.fault = ({ name, index }) => {
      if (name === 'ftruncateSync') return systemError('EIO')
      if (name === 'writeSync') return index % 2 ? 20 : systemError('EIO')
      return undefined
    }
    writer.append(event('a'), { writeThrough: true })
    clock.advance(2000)
    disk.fault = undefined
    await mended(writer, clock)
    await writer.close()
    expect(await verify(dir)).toMatchObject({ ok: true, events: 1 })
  })

  it('makes a barrier wait until the disk works, or reject at its deadline with the cause', async () => {
    const dir = tempDir()
    const disk = new Disk()
    const clock = new ManualClock()
    const writer = await openWriter(dir, { fs: disk.fs, clock })
    disk.fault = (call) => (isAppend(call) ? systemError('ENOSPC') : undefined)
    writer.append(event('a'))
    const impatient = writer.barrier({ deadlineMs: 1000 })
    const patient = writer.barrier({ deadlineMs: 60_000 })
    const rejected = rejection(impatient)
    clock.advance(1000)
    expect(await rejected).toMatchObject({ code: 'UNAVAILABLE', cause: { cause: { code: 'ENOSPC' } } })
    clock.advance(40_000)
    disk.fault = undefined
    clock.advance(2000)
    await patient
    await writer.close()
    expect(await readAll(dir)).toHaveLength(1)
  })

  it('makes a turn end and a group of emitters reject too, and close, which still closes the file', async () => {
    const disk = new Disk()
    const clock = new ManualClock()
    const writer = await openWriter(tempDir(), { fs: disk.fs, clock, fsync: 'every-event' })
    disk.fault = (call) => (isAppend(call) ? systemError('EIO') : undefined)
    writer.append(event('a'))
    const waiting = [writer.turnEnded(), writer.committed(), writer.close()].map(rejection)
    clock.advance(30_000)
    for (const error of await Promise.all(waiting)) expect(error).toMatchObject({ code: 'UNAVAILABLE' })
    expect(disk.fs.open.size).toBe(0)
    expect(clock.pending).toBe(0)
  })

  it('makes a group of emitters wait no longer than its deadline', async () => {
    const disk = new Disk()
    const clock = new ManualClock()
    const writer = await openWriter(tempDir(), { fs: disk.fs, clock, fsync: 'every-event' })
    disk.fault = (call) => (isAppend(call) ? systemError('EIO') : undefined)
    writer.append(event('a'))
    const committed = rejection(writer.committed())
    expect(writer.committed()).toBe(writer.committed())
    clock.advance(30_000)
    expect(await committed).toMatchObject({ code: 'UNAVAILABLE' })
    disk.fault = undefined
    await mended(writer, clock)
    await writer.close()
    expect(clock.pending).toBe(0)
  })

  it('shows projections only what was written', async () => {
    const disk = new Disk()
    const clock = new ManualClock()
    const writer = await openWriter(tempDir(), { fs: disk.fs, clock, fsync: 'none' })
    const seen: number[] = []
    writer.subscribeProjection(['a'], ({ seq }) => void seen.push(seq))
    disk.fault = (call) => (isAppend(call) ? systemError('ENOSPC') : undefined)
    for (let i = 0; i < 4; i++) writer.append(event('a', 'x'.repeat(70_000)))
    expect(seen).toEqual([])
    let writes = 0
    disk.fault = (call) => (isAppend(call) && writes++ === 2 ? systemError('ENOSPC') : undefined)
    clock.advance(50)
    expect(seen).toEqual([1, 2])
    await mended(writer, clock)
    expect(seen).toEqual([1, 2, 3, 4])
    await writer.close()
  })

  it('bounds what is kept in memory, and fills the slots of dropped events in the end', async () => {
    const dir = tempDir()
    const disk = new Disk()
    const clock = new ManualClock()
    const writer = await openWriter(dir, { fs: disk.fs, clock, fsync: 'none' })
    disk.fault = (call) => (isAppend(call) ? systemError('ENOSPC') : undefined)
    const text = 'x'.repeat(1024 * 1024)
    for (let i = 0; i < 150; i++) writer.append(event('big', text))
    for (let i = 0; i < 1000; i++) writer.append(event('small'))
    disk.fault = undefined
    await mended(writer, clock)
    expect(writer.append(event('after'))).toBe(1151)
    await writer.close()
    const events = await readAll(dir)
    expect(seqsOf(events)).toEqual(range(1, 1151))
    const kept = events.filter(({ type }) => type === 'big').length
    expect(kept).toBeGreaterThan(50)
    expect(kept).toBeLessThanOrEqual(64)
    expect(events.filter(({ type }) => type === 'journal.lost')).toHaveLength(
      1150 - kept - events.filter(({ type }) => type === 'small').length,
    )
    expect(events.find(({ type }) => type === 'journal.lost')).toMatchObject({
      event_id: `lost-${kept + 1}`,
      session_id: 's1',
    })
    expect(events.at(-1)?.type).toBe('after')
  })
})

describe('a sync that fails', () => {
  it('moves the lines to a new file, since the kernel may have dropped the pages of the old one', async () => {
    const dir = tempDir()
    const disk = new Disk()
    const clock = new ManualClock()
    const writer = await openWriter(dir, { fs: disk.fs, clock })
    writer.append(event('a'))
    await writer.barrier()
    writer.append(event('b'), { writeThrough: true })
    disk.fault = ({ name }) => (name === 'fdatasync' ? systemError('EIO') : undefined)
    const barrier = writer.barrier()
    await broken(writer)
    expect(writer.behind).toMatchObject({ code: 'LOCAL_IO', op: 'journal.sync' })
    writer.append(event('c'), { writeThrough: true })
    const callsBefore = disk.fs.calls.length
    disk.fault = undefined
    await mended(writer, clock)
    await barrier
    const calls = disk.fs.calls.slice(callsBefore).map(({ name }) => name)
    // The new file is synced before it takes the name, and the name before anyone is told.
    expect(calls.indexOf('fsync')).toBeLessThan(calls.indexOf('renameSync'))
    expect(calls.lastIndexOf('fsync')).toBeGreaterThan(calls.indexOf('renameSync'))
    await writer.close()
    expect(seqsOf(await readAll(dir))).toEqual([1, 2, 3])
    expect(readdirSync(dir).toSorted()).toEqual(['events.jsonl', 'header.json'])
    expect(disk.fs.open.size).toBe(0)
  })

  it('takes the unsynced lines from memory, not from pages that may be gone', async () => {
    const dir = tempDir()
    const disk = new Disk()
    const clock = new ManualClock()
    const writer = await openWriter(dir, { fs: disk.fs, clock })
    writer.append(event('a', 'synced'))
    await writer.barrier()
    writer.append(event('b', 'dropped'), { writeThrough: true })
    const path = `${dir}/events.jsonl`
    const whole = readFileSync(path, 'utf8')
    disk.fault = ({ name, args }) => {
      if (name !== 'fdatasync') return undefined
      // What the kernel does: the page reads as it was before the write.
      disk.fault = undefined
      const fd = args[0] as number
      disk.fs.ftruncateSync(fd, whole.indexOf('\n') + 1)
      disk.fs.writeSync(fd, Buffer.alloc(whole.length - whole.indexOf('\n') - 1))
      return systemError('EIO')
    }
    const barrier = writer.barrier()
    await broken(writer)
    await mended(writer, clock)
    await barrier
    expect(readFileSync(path, 'utf8')).toBe(whole)
    await writer.close()
  })

  it('keeps trying when the new file fails too', async () => {
    const dir = tempDir()
    const disk = new Disk()
    const clock = new ManualClock()
    const writer = await openWriter(dir, { fs: disk.fs, clock })
    writer.append(event('a'))
    disk.fault = ({ name }) => (name === 'fdatasync' ? systemError('EIO') : undefined)
    const barrier = writer.barrier({ deadlineMs: 1e9 })
    await broken(writer)
    for (const failing of ['openSync', 'writeSync', 'fsync', 'renameSync'] as const) {
      let failed = false
      disk.fault = ({ name }) => {
        if (name !== failing) return undefined
        failed = true
        return systemError('EMFILE')
      }
      clock.advance(3000)
      await until(() => failed && clock.pending > 1, `${failing} was tried`)
      expect(writer.behind).toBeDefined()
    }
    disk.fault = undefined
    await mended(writer, clock)
    await barrier
    await writer.close()
    expect(await readAll(dir)).toHaveLength(1)
    expect(disk.fs.open.size).toBe(0)
  })
})

describe('a disk that never answers', () => {
  it('hangs neither a barrier nor close', async () => {
    const disk = new Disk()
    const clock = new ManualClock()
    const hanging = new Proxy(disk.fs, {
      get: (target, name: keyof typeof disk.fs) => (name === 'fdatasync' ? () => undefined : target[name]),
    })
    const writer = await openWriter(tempDir(), { fs: hanging, clock })
    writer.append(event('a'))
    const barrier = rejection(writer.barrier({ deadlineMs: 500 }))
    clock.advance(500)
    expect(await barrier).toMatchObject({ code: 'UNAVAILABLE' })
    let closed: unknown
    void rejection(writer.close({ deadlineMs: 500 })).then((error) => (closed = error))
    await until(() => {
      clock.advance(100)
      return closed !== undefined
    }, 'close gives up')
    expect(closed).toMatchObject({ code: 'UNAVAILABLE' })
    expect(clock.pending).toBe(0)
  })
})
