import { appendFileSync, readFileSync, unlinkSync, writeFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { event, openWriter, readAll, seqsOf } from '../../test/support/events.ts'
import { ManualClock } from '../../test/support/manual-clock.ts'
import { tempDir } from '../../test/support/temp-dir.ts'
import type { JournalDamage } from '../format/damage.ts'
import { encodeRecord } from '../format/record.ts'
import { verify } from '../read/verify.ts'

const line = (seq: number, fields = {}): string => encodeRecord(seq, event('a', 'é', fields))

/** A journal whose active segment holds `text`. */
async function journalOf(text: string | Buffer): Promise<{ dir: string; path: string }> {
  const dir = tempDir()
  await (await openWriter(dir)).close()
  writeFileSync(`${dir}/events.jsonl`, text)
  return { dir, path: `${dir}/events.jsonl` }
}

/** What an open finds, and what a full reading finds afterwards. */
async function openingOf(dir: string): Promise<{ atOpen: readonly JournalDamage[]; later: JournalDamage[] }> {
  const writer = await openWriter(dir, { clock: new ManualClock() })
  await writer.close()
  const { gaps, damage } = await verify(dir)
  return { atOpen: writer.damage, later: [...gaps, ...damage].toSorted((a, b) => a.offset - b.offset) }
}

describe('damage of the active segment is told when the journal is opened:', () => {
  it('nothing, for a sound one', async () => {
    const { dir } = await journalOf(line(1) + line(2, { parent_id: '{"seq":9' }) + line(3))
    expect(await openingOf(dir)).toEqual({ atOpen: [], later: [] })
  })

  it('a torn end, with its place and where it was put', async () => {
    const { dir } = await journalOf(`${line(1)}{"seq":2,"ty`)
    const { atOpen, later } = await openingOf(dir)
    expect(atOpen).toMatchObject([{ kind: 'torn', file: 'events.jsonl', offset: Buffer.byteLength(line(1)) }])
    expect(atOpen[0]?.detail).toContain('torn-20261129T163412123Z.part')
    expect(later).toEqual([])
  })

  it('zeros at the end, as a power loss leaves them', async () => {
    const { dir } = await journalOf(Buffer.concat([Buffer.from(line(1)), Buffer.alloc(5000)]))
    const { atOpen } = await openingOf(dir)
    expect(atOpen).toMatchObject([{ kind: 'torn', detail: expect.stringContaining('zeros') as unknown }])
  })

  it('zeros in the middle, and the events that went with them', async () => {
    const { dir } = await journalOf(
      Buffer.concat([Buffer.from(line(1)), Buffer.alloc(300), Buffer.from(line(2) + line(3))]),
    )
    const { atOpen, later } = await openingOf(dir)
    const offset = Buffer.byteLength(line(1))
    expect(atOpen).toMatchObject([
      { kind: 'malformed', offset, detail: expect.stringContaining('zeros') as unknown },
      { kind: 'gap', seq: 2 },
    ])
    expect(atOpen.map(({ kind, offset: at }) => [kind, at])).toEqual(later.map(({ kind, offset: at }) => [kind, at]))
  })

  it.each([
    ['a line that is no event', 'not an event at all, whatever it may be\n'],
    ['a record that swallowed the next one', `${line(2).slice(0, 40)}${line(3)}`],
    ['a line that was cut', `${line(2).slice(0, 60)}\n`],
  ])('%s', async (_, broken) => {
    const { dir } = await journalOf(line(1) + broken + line(4))
    const { atOpen, later } = await openingOf(dir)
    expect(atOpen[0]).toMatchObject({ kind: 'malformed', offset: Buffer.byteLength(line(1)) })
    expect(atOpen.map(({ kind, offset }) => [kind, offset])).toEqual(later.map(({ kind, offset }) => [kind, offset]))
  })

  it('numbers that are missing or stand twice', async () => {
    const { dir } = await journalOf(line(1) + line(4) + line(4) + line(5))
    const { atOpen } = await openingOf(dir)
    expect(atOpen).toMatchObject([
      { kind: 'gap', seq: 2 },
      { kind: 'out-of-order', seq: 4 },
    ])
  })

  it('in at most a thousand entries, in little time', async () => {
    const { dir } = await journalOf(line(1) + '\n'.repeat(3_000_000) + line(2))
    const before = process.cpuUsage()
    const writer = await openWriter(dir)
    await writer.close()
    expect(writer.damage).toHaveLength(1000)
    const spent = process.cpuUsage(before)
    // An entry for each would take minutes.
    expect((spent.user + spent.system) / 1000).toBeLessThan(10_000)
  })
})

describe('between the sealed segments and the active one', () => {
  it('a gap is told, and the next seq is above the segments that can be read', async () => {
    const dir = tempDir()
    const writer = await openWriter(dir, { rotateBytes: 1 })
    for (let turn = 0; turn < 3; turn++) {
      writer.append(event('a'))
      await writer.turnEnded()
      await writer.snapshot(tempDir())
    }
    await writer.close()
    writeFileSync(`${dir}/events-003.jsonl.zst`, 'nothing of it is left')
    const again = await openWriter(dir)
    expect(again.damage).toMatchObject([{ kind: 'segment', file: 'events-003.jsonl.zst', offset: 0 }])
    expect(again.lastSeq).toBe(2)
    await again.close()
    unlinkSync(`${dir}/events-003.jsonl.zst`)
    appendFileSync(`${dir}/events.jsonl`, line(4))
    const third = await openWriter(dir)
    expect(third.damage).toMatchObject([{ kind: 'gap', file: 'events.jsonl', offset: 0, seq: 3 }])
    expect(third.lastSeq).toBe(4)
    await third.close()
  })
})

it('a whole last record that lacks its newline gets it before the next one is written', async () => {
  const { dir, path } = await journalOf((line(1) + line(2)).slice(0, -1))
  const writer = await openWriter(dir)
  expect(writer.damage).toEqual([])
  writer.append(event('next'))
  await writer.close()
  expect(seqsOf(await readAll(dir))).toEqual([1, 2, 3])
  expect(readFileSync(path, 'utf8').split('\n')).toHaveLength(4)
})
