import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { MAX_LINE_BYTES } from './format.ts'
import { decodeLine, encodeRecord, type JournalRecord } from './record.ts'

const base: JournalRecord = {
  ts: '2026-11-29T16:34:12.123Z',
  type: 'llm.response',
  event_id: 'e1',
  source: 'plugin.x',
  session_id: 's1',
  depth: 2,
  payload: { a: 1 },
}

function decode(line: string): ReturnType<typeof decodeLine> {
  expect(line.endsWith('\n')).toBe(true)
  expect(line.indexOf('\n')).toBe(line.length - 1)
  return decodeLine(line.slice(0, -1))
}

describe('encodeRecord', () => {
  it('writes the fields in a fixed order and leaves empty ones out', () => {
    expect(encodeRecord(7, { ...base, depth: 0, source: '', payload: undefined })).toBe(
      '{"seq":7,"ts":"2026-11-29T16:34:12.123Z","type":"llm.response","event_id":"e1","session_id":"s1"}\n',
    )
    const full = {
      ...base,
      parent_seq: 3,
      parent_id: 'e0',
      agent_id: 'a',
      side_effect: true,
      vetoed: true,
      veto_reason: 'no',
    }
    expect(Object.keys(JSON.parse(encodeRecord(8, full)) as object)).toEqual([
      'seq',
      'ts',
      'type',
      'event_id',
      'source',
      'parent_seq',
      'parent_id',
      'session_id',
      'agent_id',
      'depth',
      'side_effect',
      'vetoed',
      'veto_reason',
      'payload',
    ])
  })

  it('gives back what it was given, whatever the strings are', () => {
    const text = fc.string({ unit: 'binary', minLength: 1, maxLength: 40 })
    const record = fc.record(
      {
        ts: text,
        type: text,
        event_id: text,
        source: text,
        parent_seq: fc.integer({ min: 1 }),
        parent_id: text,
        session_id: text,
        agent_id: text,
        depth: fc.nat(),
        veto_reason: text,
        payload: fc.jsonValue({ noUnicodeString: false }),
      },
      { requiredKeys: ['ts', 'type', 'event_id', 'source', 'session_id', 'depth', 'payload'] },
    )
    fc.assert(
      fc.property(fc.integer({ min: 1 }), record, (seq, fields) => {
        const envelope = decode(encodeRecord(seq, fields))
        expect(envelope).toEqual({
          ...(JSON.parse(JSON.stringify(fields)) as object),
          seq,
        })
      }),
    )
  })

  it('keeps the slot when the payload cannot be written', () => {
    expect(decode(encodeRecord(9, { ...base, payload: 1n }))).toMatchObject({
      seq: 9,
      type: 'llm.response',
      payload: { __journal_error: expect.stringContaining('BigInt') as unknown },
    })
  })

  it('keeps the slot when the record itself cannot be read', () => {
    const hostile = new Proxy(base, {
      get: () => {
        throw new Error('no')
      },
    })
    expect(decode(encodeRecord(10, hostile))).toMatchObject({ seq: 10, type: 'journal.unreadable' })
  })

  it('never makes a line beyond the limit, in characters or in bytes', () => {
    for (const payload of ['x'.repeat(MAX_LINE_BYTES), 'é'.repeat(MAX_LINE_BYTES * 0.6)]) {
      const line = encodeRecord(1, { ...base, payload })
      expect(Buffer.byteLength(line)).toBeLessThan(1000)
      expect(decode(line)?.payload).toEqual({ __journal_error: expect.stringContaining('longer') as unknown })
    }
  })

  it('takes a payload just below the limit', () => {
    const line = encodeRecord(1, { ...base, payload: 'x'.repeat(MAX_LINE_BYTES - 2 * 1024 * 1024) })
    expect(decode(line)?.payload).toHaveLength(MAX_LINE_BYTES - 2 * 1024 * 1024)
  })

  it('cuts absurdly long names and takes wrong types, instead of failing', () => {
    const wrong = { ...base, type: 'x'.repeat(1_000_000), event_id: 5, parent_seq: Number.NaN, depth: Infinity }
    const envelope = decode(encodeRecord(1, wrong as unknown as JournalRecord))
    expect(envelope?.type).toHaveLength(64 * 1024)
    expect(envelope).toMatchObject({ event_id: '5', depth: 0 })
    expect(envelope).not.toHaveProperty('parent_seq')
  })
})

describe('decodeLine', () => {
  it.each([
    '',
    ' ',
    'null',
    '1',
    '[]',
    '{}',
    '{"seq":1}',
    '{"seq":"1","type":"x"}',
    '{"seq":0,"type":"x"}',
    '{"seq":1.5,"type":"x"}',
    '{"seq":1,"type":"x"',
    '\0\0\0',
  ])('refuses %j', (line) => {
    expect(decodeLine(line)).toBeUndefined()
  })
})
