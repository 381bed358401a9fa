import nodeFsModule, { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { isNexusError } from '@nexus/errors'
import { describe, expect, it } from 'vitest'
import { event, openWriter, range, readAll, seqsOf } from '../test/support/events.ts'
import { faultyFs } from '../test/support/faulty-fs.ts'
import { ManualClock } from '../test/support/manual-clock.ts'
import { tempDir } from '../test/support/temp-dir.ts'
import { until } from '../test/support/until.ts'
import type { FsyncMode } from './header.ts'
import { decodeLine, type JournalEnvelope } from './record.ts'

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

describe('snapshot', () => {
  it('holds everything appended before it and nothing later, while appends go on', async () => {
    const root = tempDir()
    const dir = `${root}/journal`
    const dest = `${root}/staging`
    mkdirSync(dest)
    const writer = await openWriter(dir, { rotateBytes: 1000 })
    for (let i = 0; i < 50; i++) writer.append(event('a'))
    await writer.turnEnded()
    for (let i = 0; i < 10; i++) writer.append(event('b'))
    const taking = writer.snapshot(dest)
    const late = setInterval(() => writer.append(event('late'), { writeThrough: true }), 1)
    const snapshot = await taking
    clearInterval(late)
    writer.append(event('later'), { writeThrough: true })

    expect(snapshot.sealed.map(({ name }) => name)).toEqual(['events-001.jsonl.zst'])
    for (const { name, path, sizeBytes } of [snapshot.header, ...snapshot.sealed]) {
      expect(path).toBe(`${dir}/${name}`)
      expect(statSync(path).size).toBe(sizeBytes)
    }
    expect(snapshot.active.path).toBe(`${dest}/events.jsonl`)
    expect(statSync(snapshot.active.path).size).toBe(snapshot.active.sizeBytes)
    for (const file of [snapshot.header, ...snapshot.sealed])
      nodeFsModule.copyFileSync(file.path, `${dest}/${file.name}`)
    const events = await readAll(dest)
    expect(seqsOf(events)).toEqual(range(1, snapshot.lastSeq))
    expect(snapshot.lastSeq).toBeGreaterThanOrEqual(60)
    expect(events.some(({ type }) => type === 'later')).toBe(false)
    await writer.close()
  })

  it('waits for a running rotation', async () => {
    const root = tempDir()
    mkdirSync(`${root}/staging`)
    const order: string[] = []
    const failpoint = (name: string): void => void order.push(name)
    const writer = await openWriter(`${root}/journal`, { rotateBytes: 1, failpoint })
    writer.append(event('a'))
    await writer.turnEnded()
    writer.append(event('b'))
    const snapshot = await writer.snapshot(`${root}/staging`)
    await writer.close()
    expect(order.indexOf('rotate:begin')).toBeGreaterThanOrEqual(0)
    const done = Math.max(order.indexOf('rotate:truncated'), order.indexOf('rotate:tail-renamed'))
    expect(order.indexOf('snapshot:begin')).toBeGreaterThan(done)
    expect(snapshot.sealed).toHaveLength(1)
  })

  it('keeps rotations away until the copy is done, and then lets the one begin that was due', async () => {
    const root = tempDir()
    mkdirSync(`${root}/staging`)
    const order: string[] = []
    const failpoint = (name: string): void => void order.push(name)
    const writer = await openWriter(`${root}/journal`, { rotateBytes: 1, failpoint, fsync: 'none' })
    // More than is copied in one slice.
    for (let i = 0; i < 30; i++) writer.append(event('a', 'x'.repeat(1_000_000)))
    const taking = writer.snapshot(`${root}/staging`)
    await until(() => order.includes('snapshot:begin'), 'the copy begins')
    expect(order).not.toContain('snapshot:copied')
    await writer.turnEnded()
    await taking
    await until(() => order.includes('rotate:begin'), 'the rotation begins')
    expect(order.indexOf('rotate:begin')).toBeGreaterThan(order.indexOf('snapshot:copied'))
    await writer.close()
  })

  it('works after close', async () => {
    const root = tempDir()
    mkdirSync(`${root}/staging`)
    const writer = await openWriter(`${root}/journal`)
    writer.append(event('a'))
    await writer.close()
    const snapshot = await writer.snapshot(`${root}/staging`)
    expect(snapshot).toMatchObject({ lastSeq: 1, sealed: [] })
    expect(readFileSync(snapshot.active.path, 'utf8')).toBe(readFileSync(`${root}/journal/events.jsonl`, 'utf8'))
  })

  it('never writes over the journal itself', async () => {
    const dir = tempDir()
    const writer = await openWriter(dir)
    writer.append(event('a'))
    await expect(writer.snapshot(dir)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
    await writer.close()
    expect(await readAll(dir)).toHaveLength(1)
  })

  it('says what failed when the destination is missing, and rotations go on', async () => {
    const dir = tempDir()
    const writer = await openWriter(dir, { rotateBytes: 1 })
    writer.append(event('a'))
    await expect(writer.snapshot(`${dir}/missing`)).rejects.toMatchObject({ code: 'NOT_FOUND' })
    await writer.turnEnded()
    await writer.close()
    expect(existsSync(`${dir}/events-001.jsonl.zst`)).toBe(true)
  })
})

describe('projections', () => {
  it('get events of their types in order, as they are read back, once they are written', async () => {
    const dir = tempDir()
    const writer = await openWriter(dir, { clock: new ManualClock() })
    const seen: JournalEnvelope[] = []
    const unsubscribe = writer.subscribeProjection(['a', 'c'], (envelope) => {
      expect(linesOf(dir).length).toBeGreaterThanOrEqual(envelope.seq)
      seen.push(envelope)
    })
    const payload = { at: new Date(0), bytes: Buffer.from('x') }
    writer.append(event('a', payload))
    payload.at = new Date(1)
    writer.append(event('b'))
    writer.append(event('c'))
    expect(seen).toEqual([])
    await writer.barrier()
    expect(seqsOf(seen)).toEqual([1, 3])
    expect(seen[0]?.payload).toEqual({ at: '1970-01-01T00:00:00.000Z', bytes: Buffer.from('x') })
    unsubscribe()
    writer.append(event('a'))
    await writer.close()
    expect(seen).toHaveLength(2)
    expect(seen).toEqual((await readAll(dir)).filter(({ seq }) => seq === 1 || seq === 3))
  })

  it('that throw or reject are logged and harm nobody', async () => {
    const errors: unknown[] = []
    const logger = {
      debug: () => undefined,
      info: () => undefined,
      warn: () => undefined,
      error: (fields: unknown) => void errors.push(fields),
    }
    const writer = await openWriter(tempDir(), { logger })
    const seen: number[] = []
    writer.subscribeProjection(['a'], () => {
      throw new Error('sync')
    })
    writer.subscribeProjection(['a'], () => Promise.reject(new Error('async')))
    writer.subscribeProjection(['a'], ({ seq }) => void seen.push(seq))
    writer.append(event('a'), { writeThrough: true })
    writer.append(event('a'), { writeThrough: true })
    await writer.close()
    expect(seen).toEqual([1, 2])
    expect(errors).toHaveLength(4)
  })

  it('may append events themselves', async () => {
    const dir = tempDir()
    const writer = await openWriter(dir)
    const seen: string[] = []
    writer.subscribeProjection(['a', 'b'], ({ type }) => {
      seen.push(type)
      if (type === 'a') writer.append(event('b'), { writeThrough: true })
    })
    writer.append(event('a'), { writeThrough: true })
    writer.append(event('a'), { writeThrough: true })
    await writer.close()
    expect(seen).toEqual(['a', 'b', 'a', 'b'])
    expect(seqsOf(await readAll(dir))).toEqual([1, 2, 3, 4])
  })
})
