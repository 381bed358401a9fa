import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { statSync } from 'node:fs'
import process from 'node:process'
import { expect, it, onTestFinished } from 'vitest'
import { CaptureCase } from './capture-case.ts'

// The more the better: a machine that has nothing else to do can take minutes.
const CAPTURES = Number(process.env['NEXUS_PAGES_CAPTURES'] ?? 300)
const WRITERS = 3
const KILL_EVERY = 20

async function startWriter(path: string, seed: number): Promise<ChildProcess> {
  const program = new URL('../fixtures/storm-child.mjs', import.meta.url)
  const child = fork(program, [path, `${seed}`], { execArgv: [] })
  onTestFinished(() => void child.kill('SIGKILL'))
  await once(child, 'message')
  return child
}

it('three processes write, checkpoint and are killed, and every image is what SQLite serializes', async () => {
  const test = new CaptureCase({ pageSize: 1024 })
  test.db.exec('INSERT INTO rows (body) VALUES (randomblob(700))')
  let seed = 0
  const start = (): Promise<ChildProcess> => startWriter(test.path, ++seed)
  const writers = await Promise.all(Array.from({ length: WRITERS }, start))
  const kinds = { full: 0, changed: 0, nothing: 0 }
  let longestWalBytes = 0
  for (let capture = 0; capture < CAPTURES; capture++) {
    kinds[(await test.captureAndCompare()).kind]++
    test.captured.tick(Date.now())
    await test.settled()
    longestWalBytes = Math.max(longestWalBytes, statSync(`${test.path}-wal`).size)
    if (capture % KILL_EVERY !== KILL_EVERY - 1) continue
    const writer = writers.shift()
    writer?.kill('SIGKILL')
    writers.push(await start())
  }
  process.stdout.write(`${JSON.stringify({ ...kinds, longestWalBytes, copies: test.copies.length })}\n`)
  expect(kinds.changed).toBeGreaterThan(0)
})
