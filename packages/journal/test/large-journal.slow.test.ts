import { closeSync, openSync, statSync, writeSync } from 'node:fs'
import { expect, it } from 'vitest'
import { JournalReader } from '../src/index.ts'
import { event, openWriter } from './support/events.ts'
import { tempDir } from './support/temp-dir.ts'

const MIB = 1024 * 1024
/** More than a string of V8 can hold. */
const JOURNAL_BYTES = 600 * MIB
/** Beyond what the process has already, so that nothing of the journal's size was ever held. */
const GROWTH_BYTES = 150 * MIB

/** Short lines behind the ones that are there, until the file has the size. Returns the last seq. */
function fill(path: string, lastSeq: number): number {
  const line = JSON.stringify({ seq: 0, ...event('note', { text: 'x'.repeat(1000) }) }).slice('{"seq":0'.length)
  const fd = openSync(path, 'a')
  let seq = lastSeq
  for (let size = statSync(path).size; size < JOURNAL_BYTES;) {
    let lines = ''
    while (lines.length < 4 * MIB)
      lines += `{"seq":${(seq += 1)}${line.replace(/"event_id":"/, `"event_id":"${seq}-`)}\n`
    size += writeSync(fd, lines)
  }
  closeSync(fd)
  return seq
}

it('a journal longer than any string opens, goes on and is read in bounded memory', async ({ onTestFinished }) => {
  const dir = `${tempDir(onTestFinished)}/journal`
  const first = await openWriter(dir)
  first.append(event('io.input', { content: 'first' }))
  await first.close()
  const lastSeq = fill(`${dir}/events.jsonl`, 1)
  const before = process.memoryUsage.rss()
  const writer = await openWriter(dir)
  expect(writer.append(event('io.input', { content: 'last' }))).toBe(lastSeq + 1)
  await writer.close()
  const reader = await JournalReader.open(dir)
  expect(await reader.lastSeq()).toBe(lastSeq + 1)
  let count = 0
  for await (const batch of reader.batches()) count += batch.length
  expect(count).toBe(lastSeq + 1)
  expect(reader.damage).toEqual([])
  expect(process.memoryUsage.rss() - before).toBeLessThan(GROWTH_BYTES)
}, 120_000)
