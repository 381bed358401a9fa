import { readdirSync } from 'node:fs'
import { tempDir } from '@nexus/host/testing'
import type { JournalEnvelope } from '@nexus/journal'
import { expect, it } from 'vitest'
import { indexTimeline, timeline, type TimelineTurn } from '../src/index.ts'

async function* journal(): AsyncGenerator<JournalEnvelope> {
  const told: [type: string, payload: object][] = [
    ['agent.turn.start', { turn_id: 't1' }],
    ['tool.invoke', { id: 'c1', name: 'read_file' }],
    ['tool.result', { id: 'c1', error: 'no such file' }],
    ['session.file.created', { path: 'files/a' }],
    ['agent.turn.end', { turn_id: 't1' }],
    ['agent.turn.start', { turn_id: 't2' }],
  ]
  for (const [at, [type, payload]] of told.entries()) {
    const ts = new Date(Date.UTC(2026, 0, 1) + at * 1000).toISOString()
    yield { seq: at + 1, ts, type, payload, source: '' } as JournalEnvelope
  }
}

it('holds what the timeline tells, as tables, and leaves nothing behind', async () => {
  const scratchDir = tempDir()
  using index = await indexTimeline(journal(), { scratchDir })
  expect(readdirSync(scratchDir)).toEqual([])
  const all = (sql: string): unknown[] => [...index.query(sql).rows]
  const turns: TimelineTurn[] = []
  for await (const turn of timeline(journal())) turns.push(turn)
  expect(all('SELECT first_seq, last_seq, turn_id, started_at, duration_ms, error FROM turns')).toEqual(
    turns.map((turn) => [turn.firstSeq, turn.lastSeq, turn.turnId, turn.startedAt, turn.durationMs ?? null, null]),
  )
  expect(all('SELECT * FROM calls')).toEqual([[1, 0, 'read_file', 1000, 'no such file']])
  expect(all('SELECT * FROM files')).toEqual([[1, 0, 'files/a']])
  expect(all('SELECT * FROM errors')).toEqual([[1, 'read_file', 'no such file']])
  expect(index.query("SELECT x'00ff' AS bytes").columns).toEqual(['bytes'])
  expect(all("SELECT x'00ff'")).toEqual([['00ff']])
})

it.each([
  'DELETE FROM turns',
  'INSERT INTO turns (first_seq) VALUES (9) RETURNING *',
  "ATTACH '/tmp/other.db' AS other",
  'SELECT 1; SELECT 2',
  'SELECT * FROM nothing',
  "SELECT load_extension('x')",
  '',
])('refuses %j', async (sql) => {
  using index = await indexTimeline(journal(), { scratchDir: tempDir() })
  expect(() => [...index.query(sql).rows]).toThrow(expect.objectContaining({ code: 'INVALID_ARGUMENT' }))
  expect([...index.query('SELECT count(*) FROM turns').rows]).toEqual([[2]])
})
