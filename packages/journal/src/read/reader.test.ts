import { appendFileSync, mkdirSync, readFileSync, rmSync, truncateSync, writeFileSync, statSync } from 'node:fs'
import { compress } from 'zstd-napi'
import { describe, expect, it } from 'vitest'
import { event, openWriter, range, readAll, seqsOf } from '../../test/support/events.ts'
import { readOpenTurn } from '../replay/read-open-turn.ts'
import { tempDir } from '../../test/support/temp-dir.ts'
import { MAX_LINE_BYTES, segmentName } from '../format/format.ts'
import { JournalReader, type JournalReaderOptions } from './reader.ts'
import { encodeRecord, type JournalEnvelope } from '../format/record.ts'
import { readLastSeqOfSegment } from '../segment/segment-seq.ts'
import { verify } from './verify.ts'

const HEADER = '{"schema_version":1,"created_at":"2026-11-29T16:34:12.123Z","fsync_mode":"none","session_id":"s1"}'

function line(seq: number, id = `e${seq}`, type = 'a'): string {
  return encodeRecord(seq, event(type, { text: 'é' }, { event_id: id }))
}

function lines(from: number, to: number): string {
  return range(from, to)
    .map((seq) => line(seq))
    .join('')
}

/** A journal with these sealed segments and this active one, as raw text or bytes. */
function journalOf(sealed: readonly (string | Buffer)[], active: string | Buffer): string {
  const dir = tempDir()
  writeFileSync(`${dir}/header.json`, HEADER)
  sealed.forEach((content, i) => {
    writeFileSync(
      `${dir}/${segmentName(i + 1)}`,
      typeof content === 'string' ? compress(Buffer.from(content)) : content,
    )
  })
  writeFileSync(`${dir}/events.jsonl`, active)
  return dir
}

async function read(
  dir: string,
  options: JournalReaderOptions = {},
): Promise<{ seqs: number[]; error: unknown; reader: JournalReader; events: JournalEnvelope[] }> {
  const reader = await JournalReader.open(dir, options)
  const events: JournalEnvelope[] = []
  let error: unknown
  try {
    for await (const envelope of reader) events.push(envelope)
  } catch (caught) {
    error = caught
  }
  return { seqs: seqsOf(events), error, reader, events }
}

describe('JournalReader.open', () => {
  it('gives the header', async () => {
    expect((await JournalReader.open(journalOf([], ''))).header).toEqual(JSON.parse(HEADER))
  })

  it('says that there is no journal', async () => {
    await expect(JournalReader.open(tempDir())).rejects.toMatchObject({ code: 'NOT_FOUND' })
  })

  it('refuses an unknown schema version and names both', async () => {
    const dir = journalOf([], '')
    writeFileSync(`${dir}/header.json`, '{"schema_version":2}')
    await expect(JournalReader.open(dir)).rejects.toMatchObject({
      code: 'UNSUPPORTED',
      message: expect.stringMatching(/2.*1/) as unknown,
    })
  })
})

describe('reading', () => {
  it('goes through sealed segments in order of their numbers, then the active one', async () => {
    const dir = journalOf([lines(1, 3), lines(4, 4), lines(5, 9)], lines(10, 12))
    const { seqs, reader, events } = await read(dir)
    expect(seqs).toEqual(range(1, 12))
    expect(reader.damage).toEqual([])
    expect(events[0]).toMatchObject({ seq: 1, event_id: 'e1', type: 'a', payload: { text: 'é' } })
  })

  it('gives the same in batches', async () => {
    const reader = await JournalReader.open(journalOf([lines(1, 2000)], lines(2001, 4000)))
    const seqs: number[] = []
    for await (const events of reader.batches()) seqs.push(...seqsOf(events))
    expect(seqs).toEqual(range(1, 4000))
  })

  it('gives nothing from an empty journal, or one whose active segment is missing', async () => {
    const dir = journalOf([], '')
    expect(await readAll(dir)).toEqual([])
    rmSync(`${dir}/events.jsonl`)
    expect(await readAll(dir)).toEqual([])
    expect(await (await JournalReader.open(dir)).lastSeq()).toBe(0)
  })

  it('can stop early and begin again, closing what it opened', async () => {
    const reader = await JournalReader.open(journalOf([lines(1, 3)], lines(4, 6)))
    for (let i = 0; i < 3; i++) {
      for await (const envelope of reader) {
        expect(envelope.seq).toBe(1)
        break
      }
    }
  })

  it('can begin in the middle without reading earlier segments', async () => {
    const dir = journalOf([Buffer.from('not zstd, and not needed'), lines(4, 6)], lines(7, 9))
    writeFileSync(`${dir}/${segmentName(1)}`, await sealedBytes(3))
    const { seqs, reader } = await read(dir, { fromSeq: 5 })
    expect(seqs).toEqual([5, 6, 7, 8, 9])
    expect(reader.damage).toEqual([])
  })

  it('stops when it is aborted', async () => {
    const dir = journalOf([], lines(1, 20_000))
    const controller = new AbortController()
    const reader = await JournalReader.open(dir, { signal: controller.signal })
    controller.abort(new Error('enough'))
    await expect(async () => {
      for await (const _ of reader.batches()) {
        const until = performance.now() + 5
        while (performance.now() < until);
      }
    }).rejects.toThrow('enough')
  })

  it('reads a journal that is written and rotated meanwhile without a gap', async () => {
    const dir = tempDir()
    const writer = await openWriter(dir, { rotateBytes: 2000 })
    for (let i = 0; i < 100; i++) writer.append(event('a'))
    await writer.turnEnded()
    const state = { writing: true }
    const writes = (async () => {
      for (let turn = 0; turn < 20; turn++) {
        for (let i = 0; i < 50; i++) writer.append(event('a'))
        await writer.turnEnded()
      }
      state.writing = false
    })()
    while (state.writing) {
      const { seqs, reader } = await read(dir)
      expect(seqs).toEqual(range(1, seqs.length))
      expect(reader.damage.filter(({ kind }) => kind !== 'torn')).toEqual([])
      // A short journal is read without a turn of the loop, and the writer needs some.
      await new Promise(setImmediate)
    }
    await writes
    await writer.close()
    expect(await readAll(dir)).toHaveLength(1100)
  })
})

/** Bytes of a segment that this package sealed, with its footer. */
async function sealedBytes(count: number): Promise<Buffer> {
  const dir = `${tempDir()}/sealed`
  const writer = await openWriter(dir, { rotateBytes: 1 })
  for (let i = 0; i < count; i++) writer.append(event('a'))
  await writer.turnEnded()
  await writer.close()
  return readFileSync(`${dir}/${segmentName(1)}`)
}

describe('damage', () => {
  it('of a line in the middle is skipped, counted and reported with its place', async () => {
    const before = line(1) + line(2)
    const dir = journalOf([], `${before}{"seq":3,"type":"a","payl\n${line(4)}`)
    const { seqs, reader } = await read(dir)
    expect(seqs).toEqual([1, 2, 4])
    expect(reader.damage).toEqual([
      {
        kind: 'malformed',
        file: 'events.jsonl',
        offset: Buffer.byteLength(before),
        detail: expect.any(String) as unknown,
      },
      { kind: 'gap', file: 'events.jsonl', offset: Buffer.byteLength(before) + 26, seq: 3, detail: 'seq 3 is missing' },
    ])
    expect(reader.damageCounts).toEqual({ malformed: 1, gap: 1 })
  })

  it('counts bad lines beyond those it lists', async () => {
    const dir = journalOf([], `${line(1)}${'x\n'.repeat(5000)}${line(2)}`)
    const { seqs, reader } = await read(dir)
    expect(seqs).toEqual([1, 2])
    expect(reader.damage).toHaveLength(1000)
    expect(reader.damageCounts).toEqual({ malformed: 5000 })
    // Each line has its own place, also behind other bad ones of the same batch.
    expect(reader.damage.slice(0, 3).map(({ offset }) => offset - Buffer.byteLength(line(1)))).toEqual([0, 2, 4])
  })

  it('at the end is a torn line, unless it is a whole event', async () => {
    const torn = await read(journalOf([], `${line(1)}{"seq":2`))
    expect(torn.seqs).toEqual([1])
    expect(torn.reader.damage).toMatchObject([{ kind: 'torn', offset: Buffer.byteLength(line(1)) }])
    const whole = await read(journalOf([], line(1) + line(2).slice(0, -1)))
    expect(whole.seqs).toEqual([1, 2])
    expect(whole.reader.damage).toEqual([])
  })

  it('that two processes left, the same seq twice and a missing one, is reported with its place and hides nothing else', async () => {
    const first = lines(1, 3)
    const dir = journalOf([], first + line(3, 'other') + line(4) + line(6) + line(5) + line(7))
    const { seqs, reader } = await read(dir)
    expect(seqs).toEqual([1, 2, 3, 4, 6, 7])
    expect(reader.damage).toMatchObject([
      {
        kind: 'conflict',
        seq: 3,
        offset: Buffer.byteLength(first),
        detail: expect.stringMatching(/e3.*other/) as unknown,
      },
      { kind: 'gap', seq: 5 },
      { kind: 'out-of-order', seq: 5 },
    ])
    const writer = await openWriter(dir)
    expect(writer.append(event('a'))).toBe(8)
    await writer.close()
  })

  it('is not what a crash in a rotation leaves: the same events twice', async () => {
    const { seqs, reader } = await read(journalOf([lines(1, 3), lines(4, 900)], lines(4, 905)))
    expect(seqs).toEqual(range(1, 905))
    expect(reader.damage).toEqual([])
    expect(reader.duplicates).toBe(897)
  })

  it('tells repeated events from conflicting ones, one by one', async () => {
    const repeated = range(1, 300)
      .map((seq) => (seq % 100 === 0 ? line(seq, 'other') : line(seq)))
      .join('')
    const { seqs, reader } = await read(journalOf([lines(1, 300)], repeated + line(301)))
    expect(seqs).toEqual(range(1, 301))
    expect(reader.duplicates).toBe(297)
    expect(reader.damage.map(({ kind, seq }) => [kind, seq])).toEqual([
      ['conflict', 100],
      ['conflict', 200],
      ['conflict', 300],
    ])
  })

  it('that jumps back and forth ends in bounded time', async () => {
    const jumping = range(1, 3000)
      .map((i) => line(i % 2 ? 2 : 1))
      .join('')
    const { seqs } = await read(journalOf([lines(1, 5000)], jumping))
    expect(seqs).toEqual(range(1, 5000))
  })

  it('of a line beyond the limit is reported, and bounded memory reads on', async () => {
    const long = `{"seq":2,"type":"a","payload":"${'x'.repeat(2 * MAX_LINE_BYTES)}"}\n`
    const dir = journalOf([], `${line(1)}${long}${line(3)}`)
    const { seqs, reader } = await read(dir)
    expect(seqs).toEqual([1, 3])
    expect(reader.damage).toMatchObject([
      { kind: 'oversized', offset: Buffer.byteLength(line(1)) },
      { kind: 'gap', seq: 2 },
    ])
    const writer = await openWriter(dir)
    expect(writer.append(event('a'))).toBe(4)
    await writer.close()
  })
})

describe('a damaged sealed segment', () => {
  it.each<[string, (bytes: Buffer) => Buffer]>([
    ['cut three bytes short', (bytes) => bytes.subarray(0, bytes.length - 3)],
    ['followed by junk', (bytes) => Buffer.concat([bytes, Buffer.from('junk')])],
  ])('that is %s gives every event before the damage, then an error with file and offset', async (_, damage) => {
    const dir = journalOf([damage(compress(Buffer.from(lines(1, 5))))], lines(6, 7))
    const { seqs, error, reader } = await read(dir)
    expect(seqs).toEqual(range(1, seqs.length))
    expect(error).toMatchObject({
      code: 'CORRUPT',
      path: `${dir}/events-001.jsonl.zst`,
      offset: expect.any(Number) as unknown,
    })
    expect(reader.damage).toMatchObject([{ kind: 'segment', file: 'events-001.jsonl.zst' }])
    const tolerant = await read(dir, { onSegmentDamage: 'continue' })
    expect(tolerant.error).toBeUndefined()
    expect(tolerant.seqs.slice(-2)).toEqual([6, 7])
  })

  it('that is empty is an error, not a segment without events', async () => {
    const { error } = await read(journalOf([Buffer.alloc(0)], lines(1, 2)))
    expect(error).toMatchObject({ code: 'CORRUPT' })
  })

  it('that has two frames gives the events of both', async () => {
    const frames = Buffer.concat([compress(Buffer.from(lines(1, 3))), compress(Buffer.from(lines(4, 6)))])
    expect((await read(journalOf([frames], lines(7, 8)))).seqs).toEqual(range(1, 8))
    const path = `${journalOf([frames], '')}/events-001.jsonl.zst`
    expect(await readLastSeqOfSegment(path)).toBe(6)
  })

  it('that is a bomb stops at the declared limit, with flat memory', async () => {
    const bomb = compress(Buffer.alloc(64 * 1024 * 1024, `${'x'.repeat(1_000_000)}\n`))
    const dir = journalOf(
      [Buffer.concat([compress(Buffer.from(line(1))), ...Array.from({ length: 16 }, () => bomb)])],
      line(2),
    )
    expect(statSync(`${dir}/events-001.jsonl.zst`).size).toBeLessThan(200_000)
    const before = process.memoryUsage.rss()
    const { seqs, error } = await read(dir)
    expect(seqs).toEqual([1])
    expect(error).toMatchObject({ code: 'CORRUPT', message: expect.stringContaining('134217728') as unknown })
    expect(process.memoryUsage.rss() - before).toBeLessThan(200 * 1024 * 1024)
  })

  it('that is full of lines which are no events is given up early', async () => {
    const dir = journalOf(
      [
        Buffer.concat([
          compress(Buffer.from(line(1))),
          compress(Buffer.alloc(64 * 1024 * 1024, `{"seq":1,"kind":"note"}\n`)),
        ]),
      ],
      line(2),
    )
    const { seqs, error, reader } = await read(dir)
    expect(seqs).toEqual([1])
    expect(error).toMatchObject({ code: 'CORRUPT' })
    expect(reader.damageCounts.malformed).toBe(100_000)
  })

  it.each([
    ['newlines', '\n'],
    ['zeros', '\0'],
    ['one event over and over', '{"seq":1,"type":"io.input","event_id":"e"}\n'],
  ])('that is a bomb of %s costs a boot little time, and no other work its turn', async (_, text) => {
    const piece = Buffer.from(text.repeat(Math.ceil((1 << 20) / text.length)))
    const frame = compress(piece)
    const dir = journalOf([Buffer.concat(Array.from({ length: 2048 }, () => frame))], line(2))
    let turns = 0
    let longestMs = 0
    let last = performance.now()
    const ticking = setInterval(() => {
      turns++
      longestMs = Math.max(longestMs, performance.now() - last)
      last = performance.now()
    })
    const before = process.cpuUsage()
    await readOpenTurn(dir)
    const writer = await openWriter(dir)
    await writer.close()
    clearInterval(ticking)
    // Of the processor, so that a machine that has other things to do changes little. 2 GiB would take many times as much.
    const spent = process.cpuUsage(before)
    expect((spent.user + spent.system) / 1000).toBeLessThan(15_000)
    expect(turns === 0 || longestMs < 3000).toBe(true)
    expect(writer.damage).toMatchObject([{ kind: 'segment', file: 'events-001.jsonl.zst' }])
    expect(writer.damage[0]?.offset).toBeGreaterThan(0)
  })

  it('keeps the session openable', async () => {
    const dir = journalOf([lines(1, 3), Buffer.from('nothing of a segment is left')], lines(7, 8))
    const writer = await openWriter(dir)
    expect(writer.append(event('a'))).toBe(9)
    await writer.close()
    expect(await verify(dir)).toMatchObject({ ok: false, events: 6, gaps: [{ seq: 4 }] })
  })
})

describe('lastSeq and lastTurnBoundary', () => {
  it('come from the end of the journal', async () => {
    const dir = journalOf([lines(1, 3) + line(4, 'end', 'agent.turn.end'), lines(5, 6)], lines(7, 9))
    const reader = await JournalReader.open(dir)
    expect(await reader.lastSeq()).toBe(9)
    expect(await reader.lastTurnBoundary()).toBe(4)
    truncateSync(`${dir}/events.jsonl`)
    expect(await reader.lastSeq()).toBe(6)
    appendFileSync(`${dir}/events.jsonl`, line(7, 'end2', 'agent.turn.end') + line(8))
    expect(await reader.lastTurnBoundary()).toBe(7)
  })

  it('are 0 where there is none', async () => {
    const reader = await JournalReader.open(journalOf([], lines(1, 2)))
    expect(await reader.lastTurnBoundary()).toBe(0)
  })
})

describe('verify', () => {
  it('says ok for a sound journal', async () => {
    expect(await verify(journalOf([lines(1, 3)], lines(4, 6)))).toEqual({
      ok: true,
      events: 6,
      firstSeq: 1,
      lastSeq: 6,
      sweptSeq: 0,
      gaps: [],
      duplicates: 0,
      damage: [],
      counts: {},
    })
  })

  it('lists gaps, repeated events and damage', async () => {
    const dir = journalOf([lines(1, 3), 'x\n'], lines(2, 3) + lines(6, 7) + line(6, 'other'))
    expect(await verify(dir)).toMatchObject({
      ok: false,
      events: 5,
      lastSeq: 7,
      gaps: [{ seq: 4, detail: 'seqs 4 to 5 are missing' }],
      duplicates: 2,
      damage: [
        { kind: 'malformed', file: 'events-002.jsonl.zst' },
        { kind: 'conflict', seq: 6 },
      ],
      counts: { malformed: 1, gap: 1, conflict: 1 },
    })
  })

  it('reports a journal that does not begin at 1', async () => {
    expect(await verify(journalOf([], lines(5, 6)))).toMatchObject({ firstSeq: 5, gaps: [{ seq: 1 }] })
  })
})

it('files of other kinds in the directory are passed over', async () => {
  const dir = journalOf([lines(1, 2)], lines(3, 4))
  mkdirSync(`${dir}/cache`)
  for (const name of [
    'torn-20261129T163412123Z.part',
    '.nexus-tmp-journal-active',
    'events-01.jsonl.zst',
    'events-x.jsonl.zst',
  ]) {
    writeFileSync(`${dir}/${name}`, 'x')
  }
  expect(seqsOf(await readAll(dir))).toEqual([1, 2, 3, 4])
})
