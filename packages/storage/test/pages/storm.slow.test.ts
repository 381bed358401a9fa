import { statSync } from 'node:fs'
import process from 'node:process'
import { expect, it } from 'vitest'
import { startChild, type Child } from '../child.ts'
import { CaptureCase } from './capture-case.ts'

// The more the better: a machine that has nothing else to do can take minutes.
const CAPTURES = Number(process.env['NEXUS_PAGES_CAPTURES'] ?? 400)
const WRITERS = 3
const KILL_EVERY = 20

it('three processes write, checkpoint and are killed, and every image is what SQLite serializes', async () => {
  const test = new CaptureCase({ pageSize: 1024 })
  test.db.exec('INSERT INTO rows (body) VALUES (randomblob(700))')
  let seed = 0
  const start = (): Child => startChild('storm-child.ts', [test.path, `${++seed}`])
  const writers = Array.from({ length: WRITERS }, start)
  await Promise.all(writers.map((writer) => writer.heard(1)))
  const kinds = new Map<string, number>()
  let longestWalBytes = 0
  for (let capture = 0; capture < CAPTURES; capture++) {
    const { kind } = await test.captureAndCompare()
    kinds.set(kind, (kinds.get(kind) ?? 0) + 1)
    test.captured.tick(Date.now())
    await test.settled()
    longestWalBytes = Math.max(longestWalBytes, statSync(`${test.path}-wal`).size)
    if (capture % KILL_EVERY === KILL_EVERY - 1) {
      const at = seed % WRITERS
      writers[at]?.process.kill('SIGKILL')
      await writers[at]?.ended
      writers[at] = start()
    }
  }
  process.stdout.write(
    `${JSON.stringify({ kinds: Object.fromEntries(kinds), longestWalBytes, copies: test.copies.length })}\n`,
  )
  expect(kinds.get('changed')).toBeGreaterThan(CAPTURES / 3)
})
