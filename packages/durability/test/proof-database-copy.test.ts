import { expect, it, onTestFinished } from 'vitest'
import { EngineLab } from '../../engine/test/engine-fixture.ts'

it('a row that a long-lived reader keeps out of the main database file is committed with its turn', async () => {
  const lab = new EngineLab()
  onTestFinished(() => lab.close())
  const first = await lab.booted('a')
  const storage = first.storage.open('session', 'test.rows')
  storage.db.exec("CREATE TABLE t (x); INSERT INTO t VALUES ('seen by the reader')")
  const reader = storage.reader()
  const reading = reader.db.prepare('SELECT x FROM t').iterate()
  reading.next()
  storage.db.exec("INSERT INTO t VALUES ('only in the write-ahead log')")
  await first.submitInput('one')
  expect(first.status().durability).toMatchObject({ lastSnapshot: { ok: true } })
  reading.return?.()
  reader.release()
  await first.abandon()

  const second = await lab.booted('b', { recallSessionId: first.sessionId })
  const rows = second.storage.open('session', 'test.rows').db.prepare('SELECT x FROM t ORDER BY rowid').pluck().all()
  expect(rows).toEqual(['seen by the reader', 'only in the write-ahead log'])
})
