import { mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import type { NexusError } from '@nexus/errors'
import { describe, expect, it } from 'vitest'
import { event, openWriter } from '../../test/support/events.ts'
import { faultyFs, systemError } from '../../test/support/faulty-fs.ts'
import { ManualClock } from '../../test/support/manual-clock.ts'
import { tempDir } from '../../test/support/temp-dir.ts'
import { until } from '../../test/support/until.ts'

describe('a second writer in the same process', () => {
  it('is refused for as long as the first is open, under whatever name', async () => {
    const dir = `${tempDir()}/s/journal`
    const writer = await openWriter(dir)
    writer.append(event('a'))
    await expect(openWriter(dir)).rejects.toMatchObject({ code: 'LOCKED', key: dir })
    symlinkSync(dirname(dir), `${dirname(dirname(dir))}/other`)
    await expect(openWriter(`${dirname(dirname(dir))}/other/journal`)).rejects.toMatchObject({ code: 'LOCKED' })
    writer.append(event('b'))
    await writer.close()
    const next = await openWriter(dir)
    expect(next.lastSeq).toBe(2)
    await next.close()
  })

  it('is not kept out by one that failed to open', async () => {
    const dir = tempDir()
    writeFileSync(`${dir}/header.json`, '{"schema_version":99}')
    for (let i = 0; i < 2; i++) await expect(openWriter(dir)).rejects.toMatchObject({ code: 'UNSUPPORTED' })
  })
})

describe('a failing disk', () => {
  it('is told once, with behind set when the append returns, until it was mended and fails again', async () => {
    let failing = false
    const fs = faultyFs(({ name }) => (failing && name === 'writeSync' ? systemError('EFBIG') : undefined))
    const clock = new ManualClock()
    const told: (NexusError | undefined)[] = []
    const writer = await openWriter(tempDir(), { fs, clock, onError: () => told.push(writer.behind) })
    for (let outage = 1; outage <= 2; outage++) {
      failing = true
      for (let i = 0; i < 20; i++) writer.append(event('io.input'), { writeThrough: true })
      expect(writer.behind).toMatchObject({ code: 'LOCAL_IO' })
      clock.advance(10_000)
      expect(told).toHaveLength(outage)
      expect(told.at(-1)).toMatchObject({ code: 'LOCAL_IO' })
      failing = false
      clock.advance(10_000)
      await until(() => writer.behind === undefined, 'the disk is mended')
    }
    await writer.close()
    expect(told).toHaveLength(2)
  })
})

describe('what killed processes left', () => {
  it('is removed from the journal, its cache and its archive', async () => {
    const dir = tempDir()
    for (const place of ['', '/cache', '/archive']) {
      mkdirSync(`${dir}${place}`, { recursive: true })
      writeFileSync(`${dir}${place}/.nexus-tmp-journal-7-0`, 'half')
    }
    mkdirSync(`${dir}/archive/.nexus-tmp-journal-x`)
    await (await openWriter(dir)).close()
    expect(
      readdirSync(dir, { encoding: 'utf8', recursive: true }).filter((name) => name.includes('.nexus-tmp')),
    ).toEqual([])
  })
})

describe('the number of a new segment', () => {
  async function nextSegment(dir: string, committedSegment?: number): Promise<string[]> {
    const writer = await openWriter(dir, {
      rotateBytes: 1,
      ...(committedSegment !== undefined && { committedSegment }),
    })
    writer.append(event('a'))
    await writer.snapshot(tempDir())
    await writer.close()
    return readdirSync(dir).filter((name) => name.endsWith('.zst'))
  }

  it('is above every one in the directory, in an archive, swept, or named by a commit', async () => {
    const dir = tempDir()
    mkdirSync(`${dir}/archive/20261129T163412123Z`, { recursive: true })
    writeFileSync(`${dir}/archive/20261129T163412123Z/events-004.jsonl.zst`, '')
    expect(await nextSegment(dir)).toEqual(['events-005.jsonl.zst'])
    const swept = { name: 'events-008.jsonl.zst', last_seq: 1, size_bytes: 1, sha256: 'a'.repeat(64) }
    writeFileSync(`${dir}/swept.json`, JSON.stringify({ schema_version: 1, segments: [swept] }))
    expect(await nextSegment(dir)).toContain('events-009.jsonl.zst')
    expect(await nextSegment(dir, 12)).toContain('events-013.jsonl.zst')
  })

  it('is never one that readers would not know: then the lines stay where they are', async () => {
    const dir = tempDir()
    writeFileSync(`${dir}/events-999999999999999.jsonl.zst`, '')
    expect(await nextSegment(dir)).toEqual(['events-999999999999999.jsonl.zst'])
    const writer = await openWriter(dir)
    expect(writer.lastSeq).toBe(1)
    await writer.close()
  })
})
