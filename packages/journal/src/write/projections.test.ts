import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { event, openWriter, readAll, seqsOf } from '../../test/support/events.ts'
import { ManualClock } from '../../test/support/manual-clock.ts'
import { tempDir } from '../../test/support/temp-dir.ts'
import { type JournalEnvelope } from '../format/record.ts'

function linesOf(dir: string): string[] {
  return readFileSync(`${dir}/events.jsonl`, 'utf8').split('\n').slice(0, -1)
}

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
