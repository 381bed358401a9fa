import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { isNexusError } from '@nexus/errors'
import { describe, expect, it } from 'vitest'
import { event, openWriter, readAll, seqsOf } from '../../test/support/events.ts'
import { faultyFs } from '../../test/support/faulty-fs.ts'
import { ManualClock } from '../../test/support/manual-clock.ts'
import { tempDir } from '../../test/support/temp-dir.ts'
import type { FsyncMode } from '../format/header.ts'
import { decodeLine } from '../format/record.ts'

function linesOf(dir: string): string[] {
  return readFileSync(`${dir}/events.jsonl`, 'utf8').split('\n').slice(0, -1)
}

describe('JournalWriter.open', () => {
  it('creates the directory, the header and the active segment, private to the user', async () => {
    const dir = `${tempDir()}/a/journal`
    const writer = await openWriter(dir, { clock: new ManualClock(), fsync: 'every-event' })
    await writer.close()
    expect(JSON.parse(readFileSync(`${dir}/header.json`, 'utf8'))).toEqual({
      schema_version: 1,
      created_at: '2026-11-29T16:34:12.123Z',
      fsync_mode: 'every-event',
      session_id: 's1',
    })
    expect(readdirSync(dir).toSorted()).toEqual(['events.jsonl', 'header.json'])
    expect(statSync(dir).mode & 0o777).toBe(0o700)
    for (const name of readdirSync(dir)) expect(statSync(`${dir}/${name}`).mode & 0o077).toBe(0)
  })

  it('keeps an existing header as it is', async () => {
    const dir = tempDir()
    await (await openWriter(dir, { fsync: 'none' })).close()
    const before = readFileSync(`${dir}/header.json`, 'utf8')
    await (await openWriter(dir, { fsync: 'every-event', sessionId: 'other' })).close()
    expect(readFileSync(`${dir}/header.json`, 'utf8')).toBe(before)
  })

  it.each([
    ['fsync', { fsync: 'sometimes' as never }],
    ['rotateBytes', { rotateBytes: 0 }],
    ['initialSeq', { initialSeq: 0.5 }],
    ['committedSegment', { committedSegment: -1 }],
  ])('refuses a wrong %s and names it', async (key, options) => {
    await expect(openWriter(tempDir(), options)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT', key })
  })

  it('refuses another schema version, naming both', async () => {
    const dir = tempDir()
    writeFileSync(`${dir}/header.json`, '{"schema_version":7,"created_at":"x","session_id":"s1"}')
    await expect(openWriter(dir)).rejects.toMatchObject({
      code: 'UNSUPPORTED',
      message: expect.stringMatching(/7.*1/) as unknown,
    })
  })

  it.each(['', '{', '[]', '{"schema_version":1}'])('refuses a header that is none: %j', async (text) => {
    const dir = tempDir()
    writeFileSync(`${dir}/header.json`, text)
    await expect(openWriter(dir)).rejects.toSatisfy(
      (error) => isNexusError(error) && ['CORRUPT', 'UNSUPPORTED'].includes(error.code),
    )
  })

  it('says that the directory cannot be used, with the cause', async () => {
    const dir = tempDir()
    writeFileSync(`${dir}/file`, '')
    await expect(openWriter(`${dir}/file/journal`)).rejects.toMatchObject({
      code: 'LOCAL_IO',
      cause: { code: 'ENOTDIR' },
    })
  })

  it('starts at initialSeq, unless the journal is further', async () => {
    const dir = tempDir()
    const first = await openWriter(dir, { initialSeq: 10 })
    expect(first.append(event('a'))).toBe(10)
    await first.close()
    const second = await openWriter(dir, { initialSeq: 5 })
    expect(second.lastSeq).toBe(10)
    expect(second.append(event('a'))).toBe(11)
    await second.close()
  })
})

describe('abandon', () => {
  it('takes nothing more and writes nothing of what waits, as a killed process would', async () => {
    const dir = tempDir()
    const clock = new ManualClock()
    const writer = await openWriter(dir, { clock, fsync: 'none' })
    writer.append(event('kept'), { writeThrough: true })
    writer.append(event('lost'))
    await writer.abandon()
    expect(writer.append(event('late'))).toBe(0)
    await writer.abandon()
    await writer.close()
    expect(clock.pending).toBe(0)
    expect(seqsOf(await readAll(dir))).toEqual([1])
  })
})

describe('append', () => {
  it('allots seqs from 1 without gaps', async () => {
    const writer = await openWriter(tempDir())
    expect([writer.append(event('a')), writer.append(event('b')), writer.append(event('c'))]).toEqual([1, 2, 3])
    expect(writer.lastSeq).toBe(3)
    await writer.close()
  })

  it('has given a write-through line, and everything before it, to the kernel when it returns', async () => {
    const dir = tempDir()
    const writer = await openWriter(dir, { clock: new ManualClock() })
    writer.append(event('a'))
    expect(linesOf(dir)).toHaveLength(0)
    writer.append(event('io.input', { text: 'é' }), { writeThrough: true })
    expect(linesOf(dir).map((line) => decodeLine(line)?.type)).toEqual(['a', 'io.input'])
    await writer.close()
  })

  it('writes what is buffered after a few milliseconds', async () => {
    const dir = tempDir()
    const clock = new ManualClock()
    const writer = await openWriter(dir, { clock })
    writer.append(event('a'))
    writer.append(event('b'))
    clock.advance(4)
    expect(linesOf(dir)).toHaveLength(0)
    clock.advance(1)
    expect(linesOf(dir)).toHaveLength(2)
    await writer.close()
    expect(clock.pending).toBe(0)
  })

  it('holds a bounded amount in memory', async () => {
    const dir = tempDir()
    const writer = await openWriter(dir, { clock: new ManualClock(), fsync: 'none' })
    for (let i = 0; i < 3000; i++) writer.append(event('a', { text: 'x'.repeat(100) }))
    expect(linesOf(dir).length).toBeGreaterThan(2500)
    await writer.close()
    expect(linesOf(dir)).toHaveLength(3000)
  })

  it('takes lines far larger than the buffer', async () => {
    const dir = tempDir()
    const writer = await openWriter(dir)
    for (let i = 0; i < 3; i++) writer.append(event('a', '😀'.repeat(300_000)))
    await writer.close()
    expect((await readAll(dir)).map(({ payload }) => (payload as string).length)).toEqual([600_000, 600_000, 600_000])
  })

  it('never throws, whatever it is given', async () => {
    const dir = tempDir()
    const writer = await openWriter(dir)
    expect(writer.append(undefined as never)).toBe(1)
    expect(writer.append(event('a', 1n))).toBe(2)
    await writer.close()
    expect(seqsOf(await readAll(dir))).toEqual([1, 2])
  })

  it('takes nothing after close', async () => {
    const dir = tempDir()
    const writer = await openWriter(dir)
    writer.append(event('a'))
    await writer.close()
    expect(writer.append(event('b'))).toBe(0)
    expect(writer.lastSeq).toBe(1)
    expect(await readAll(dir)).toHaveLength(1)
  })
})

/** How often a run syncs: after an event, at a barrier, in all. */
async function countSyncs(fsync: FsyncMode): Promise<string> {
  const fs = faultyFs(() => undefined)
  const dir = tempDir()
  const writer = await openWriter(dir, { fsync, fs })
  const count = (): number => fs.calls.filter(({ name }) => name === 'fdatasync').length
  writer.append(event('a'))
  await writer.committed()
  const afterEvent = count()
  writer.append(event('b'))
  await writer.barrier()
  const afterBarrier = count() - afterEvent
  expect(linesOf(dir)).toHaveLength(2)
  await writer.barrier()
  await writer.close()
  return `${afterEvent} ${afterBarrier} ${count()}`
}

describe('barrier and committed', () => {
  it('sync by policy', async () => {
    expect(await countSyncs('turn-boundary')).toBe('0 1 1')
    expect(await countSyncs('every-event')).toBe('1 1 2')
    expect(await countSyncs('none')).toBe('0 0 0')
  })

  it('syncs at a turn end even when an earlier process wrote the events', async () => {
    const dir = tempDir()
    const first = await openWriter(dir, { fsync: 'none' })
    first.append(event('a'))
    await first.close()
    const fs = faultyFs(() => undefined)
    const second = await openWriter(dir, { fs })
    await second.barrier()
    expect(fs.calls.filter(({ name }) => name === 'fdatasync')).toHaveLength(1)
    await second.close()
  })

  it('let concurrent emitters share a sync', async () => {
    const fs = faultyFs(() => undefined)
    const dir = tempDir()
    const writer = await openWriter(dir, { fsync: 'every-event', fs })
    const emitter = async (): Promise<void> => {
      for (let i = 0; i < 10; i++) {
        const seq = writer.append(event('a'))
        await writer.committed()
        expect(linesOf(dir).length).toBeGreaterThanOrEqual(seq)
      }
    }
    await Promise.all(Array.from({ length: 20 }, emitter))
    expect(fs.calls.filter(({ name }) => name === 'fdatasync').length).toBeLessThanOrEqual(20)
    expect(writer.committed()).toBeUndefined()
    await writer.close()
  })

  it('cover what is appended while a sync is going on with the next one', async () => {
    const synced: number[] = []
    const fs = faultyFs(({ name }) => {
      if (name === 'fdatasync') synced.push(linesOf(dir).length)
      return undefined
    })
    const dir = tempDir()
    const writer = await openWriter(dir, { fsync: 'every-event', fs })
    writer.append(event('a'))
    const first = writer.committed()
    await new Promise(setImmediate)
    writer.append(event('b'))
    await writer.committed()
    await first
    expect(synced).toEqual([1, 2])
    await writer.close()
  })

  it('reject with the reason of a signal', async () => {
    const writer = await openWriter(tempDir())
    writer.append(event('a'))
    const reason = new Error('enough')
    await expect(writer.barrier({ signal: AbortSignal.abort(reason) })).rejects.toBe(reason)
    const controller = new AbortController()
    const waiting = writer.barrier({ signal: controller.signal })
    controller.abort(reason)
    await expect(waiting).rejects.toBe(reason)
    await writer.close()
  })

  it('reject after close', async () => {
    const writer = await openWriter(tempDir())
    await writer.close()
    await expect(writer.barrier()).rejects.toMatchObject({ code: 'CLOSED' })
    await expect(writer.turnEnded()).rejects.toMatchObject({ code: 'CLOSED' })
  })
})

describe('close', () => {
  it('writes and syncs the rest, once, however often it is called', async () => {
    const fs = faultyFs(() => undefined)
    const dir = tempDir()
    const writer = await openWriter(dir, { fs })
    writer.append(event('a'))
    await Promise.all([writer.close(), writer.close()])
    await writer.close()
    expect(linesOf(dir)).toHaveLength(1)
    expect(fs.calls.filter(({ name }) => name === 'fdatasync')).toHaveLength(1)
    expect(fs.open.size).toBe(0)
  })
})
