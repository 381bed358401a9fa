import { appendFileSync, readdirSync, readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { event, openWriter, range, readAll, seqsOf } from '../../test/support/events.ts'
import { faultyFs } from '../../test/support/faulty-fs.ts'
import { ManualClock } from '../../test/support/manual-clock.ts'
import { tempDir } from '../../test/support/temp-dir.ts'
import { encodeRecord } from '../format/record.ts'
import { verify } from '../read/verify.ts'

/** A journal with `count` events, closed. */
async function journalOf(count: number): Promise<{ dir: string; path: string }> {
  const dir = tempDir()
  const writer = await openWriter(dir)
  for (let i = 0; i < count; i++) writer.append(event('a', { text: `é${i}` }))
  await writer.close()
  return { dir, path: `${dir}/events.jsonl` }
}

/** Opens, appends one event, closes; returns the seq of the event. */
async function appendOne(dir: string): Promise<number> {
  const writer = await openWriter(dir, { clock: new ManualClock() })
  const seq = writer.append(event('next'))
  await writer.close()
  return seq
}

function partsOf(dir: string): string[] {
  return readdirSync(dir).filter((name) => name.startsWith('torn-'))
}

describe('a torn end', () => {
  it('is cut off wherever it was cut, kept aside, and costs no whole line', async () => {
    const { dir, path } = await journalOf(3)
    const whole = readFileSync(path)
    const secondEnd = whole.indexOf('\n', whole.indexOf('\n') + 1) + 1
    for (let size = secondEnd + 1; size < whole.length - 1; size++) {
      writeFileSync(path, whole.subarray(0, size))
      for (const part of partsOf(dir)) truncateSync(`${dir}/${part}`)
      expect(await appendOne(dir)).toBe(3)
      expect((await readAll(dir)).map(({ type }) => type)).toEqual(['a', 'a', 'next'])
      const kept = partsOf(dir).filter((name) => statSync(`${dir}/${name}`).size > 0)
      expect(kept).toHaveLength(1)
      expect(readFileSync(`${dir}/${kept[0]}`)).toEqual(whole.subarray(secondEnd, size))
    }
  })

  it('that is a whole event without its newline is kept in place', async () => {
    const { dir, path } = await journalOf(3)
    truncateSync(path, statSync(path).size - 1)
    expect(await appendOne(dir)).toBe(4)
    expect(await verify(dir)).toMatchObject({ ok: true, events: 4 })
    expect(partsOf(dir)).toEqual([])
  })

  it.each([
    ['zeros, as a power loss leaves them', Buffer.alloc(10_000)],
    ['several broken lines', Buffer.from('garbage\n{"seq":\n\n{"a":1}\n')],
    ['blank lines', Buffer.from('\n\n\n')],
    ['a broken line that does have its newline', Buffer.from('{"seq":4,"type":"a","payl\n')],
    ['bytes that are no UTF-8', Buffer.from([0xff, 0xfe, 0x0a])],
  ])('is cut off when it is %s', async (_, tail) => {
    const { dir, path } = await journalOf(3)
    appendFileSync(path, tail)
    expect(await appendOne(dir)).toBe(4)
    expect(await verify(dir)).toMatchObject({ ok: true, events: 4 })
    expect(readFileSync(`${dir}/${partsOf(dir)[0]}`)).toEqual(tail)
  })

  it('may be the whole file', async () => {
    const { dir, path } = await journalOf(0)
    writeFileSync(path, 'x'.repeat(200_000))
    expect(await appendOne(dir)).toBe(1)
    expect(await verify(dir)).toMatchObject({ ok: true, events: 1 })
  })

  it('is named by its time, and never takes the place of an earlier one', async () => {
    const { dir, path } = await journalOf(1)
    for (let i = 0; i < 3; i++) {
      appendFileSync(path, `torn ${i}`)
      await appendOne(dir)
    }
    expect(partsOf(dir).toSorted()).toEqual([
      'torn-20261129T163412123Z-1.part',
      'torn-20261129T163412123Z-2.part',
      'torn-20261129T163412123Z.part',
    ])
  })

  it('leaves a broken line in the middle to the reader', async () => {
    const { dir, path } = await journalOf(2)
    appendFileSync(path, `broken\n${encodeRecord(3, event('a'))}`)
    const before = readFileSync(path)
    expect(await appendOne(dir)).toBe(4)
    expect(readFileSync(path).subarray(0, before.length)).toEqual(before)
  })
})

describe('the next seq', () => {
  it('is above one that two processes left before a lower last line', async () => {
    const { dir, path } = await journalOf(2)
    appendFileSync(path, encodeRecord(90, event('other process')) + encodeRecord(3, event('a')))
    expect(await appendOne(dir)).toBe(91)
  })

  it('is above the newest sealed segment when the active one is empty', async () => {
    const dir = tempDir()
    const writer = await openWriter(dir, { rotateBytes: 1 })
    for (let i = 0; i < 3; i++) writer.append(event('a'))
    await writer.turnEnded()
    await writer.close()
    expect(statSync(`${dir}/events.jsonl`).size).toBe(0)
    expect(await appendOne(dir)).toBe(4)
  })

  it('is found by reading an end of a segment, however long the journal is', async () => {
    const dir = tempDir()
    const writer = await openWriter(dir, { rotateBytes: 1, fsync: 'none' })
    for (let turn = 0; turn < 3; turn++) {
      for (let i = 0; i < 2000; i++) writer.append(event('a', 'x'.repeat(3000)))
      await writer.turnEnded()
      await new Promise(setImmediate)
    }
    for (let i = 0; i < 6000; i++) writer.append(event('a', 'x'.repeat(3000)))
    await writer.close()
    expect(statSync(`${dir}/events.jsonl`).size).toBeGreaterThan(15_000_000)
    let bytesRead = 0
    const fs = faultyFs(({ name, args }) => {
      if (name === 'readSync') bytesRead += args[3] as number
      return undefined
    })
    const again = await openWriter(dir, { fs })
    expect(again.lastSeq).toBe(12_000)
    expect(bytesRead).toBeLessThan(5_000_000)
    await again.close()
  })
})

/** What such a crash leaves: a sealed segment, and an active one with the same lines and `tail` more. */
async function crashed(tail: number): Promise<{ dir: string; active: string }> {
  const dir = tempDir()
  const writer = await openWriter(dir)
  for (let i = 0; i < 500; i++) writer.append(event('a'))
  await writer.close()
  const lines = readFileSync(`${dir}/events.jsonl`)
  const again = await openWriter(dir, { rotateBytes: 1 })
  await again.turnEnded()
  await again.close()
  expect(statSync(`${dir}/events.jsonl`).size).toBe(0)
  writeFileSync(`${dir}/events.jsonl`, lines)
  for (let i = 0; i < tail; i++) appendFileSync(`${dir}/events.jsonl`, encodeRecord(501 + i, event('b')))
  return { dir, active: `${dir}/events.jsonl` }
}

describe('a crash between the rename and the truncation of a rotation', () => {
  it.each([0, 3])('is finished at the next open, with %i later events', async (tail) => {
    const { dir, active } = await crashed(tail)
    expect(seqsOf(await readAll(dir))).toEqual(range(1, 500 + tail))
    expect(await verify(dir)).toMatchObject({ ok: true, duplicates: 500 })
    expect(await appendOne(dir)).toBe(501 + tail)
    expect(readFileSync(active, 'utf8').split('\n')).toHaveLength(tail + 2)
    expect(await verify(dir)).toMatchObject({ ok: true, duplicates: 0, events: 501 + tail })
  })

  it('is left alone when the lines are not the same', async () => {
    const { dir, active } = await crashed(0)
    const changed = readFileSync(active, 'utf8').replace('"a"', '"x"')
    writeFileSync(active, changed)
    expect(await appendOne(dir)).toBe(501)
    expect(readFileSync(active, 'utf8').startsWith(changed)).toBe(true)
  })

  it('is left alone when the sealed segment is damaged', async () => {
    const { dir, active } = await crashed(0)
    const sealed = `${dir}/events-001.jsonl.zst`
    const bytes = readFileSync(sealed)
    bytes.fill(0xff, 20, 200)
    writeFileSync(sealed, bytes)
    const size = statSync(active).size
    expect(await appendOne(dir)).toBe(501)
    expect(statSync(active).size).toBeGreaterThan(size)
  })
})

it('leftovers of an interrupted writer are removed', async () => {
  const { dir } = await journalOf(1)
  for (const name of ['events-001.jsonl.zst', 'active', 'header', 'rewrite']) {
    writeFileSync(`${dir}/.nexus-tmp-journal-${name}`, 'half')
  }
  await appendOne(dir)
  expect(readdirSync(dir).toSorted()).toEqual(['events.jsonl', 'header.json'])
})
