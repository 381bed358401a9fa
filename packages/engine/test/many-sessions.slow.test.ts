import { fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it, onTestFinished } from 'vitest'

interface Taken {
  /** Resident memory above that of the process before its first session. */
  grownMiB: number
  threads: number
  openedEach: number
  committedEach: number
  closeMs: number
  /** Paths below the directory of the test that are still open after the last session was closed. */
  left: string[]
}

// Of a session: its lock, its journal and the directory of that, and the record of its commits on this machine.
const OF_A_SESSION = 4
// Of an open database: those of the file, the WAL and the WAL's index, and one that a reader had, which SQLite can't close before
// the writer lets go of its locks and gives to the next reader.
const OF_A_DATABASE = 4
const SESSIONS = 300

it('300 sessions in one process share its threads, and take little memory and few descriptors each', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'nexus-many-sessions-'))
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }))
  const child = fork(fileURLToPath(new URL('./many-sessions-child.ts', import.meta.url)), [dir, String(SESSIONS)])
  const exit = once(child, 'exit')
  const taken = await Promise.race([once(child, 'message'), exit]).then(([message]) => message as Taken)
  expect(taken).toEqual({
    grownMiB: expect.any(Number),
    threads: expect.any(Number),
    openedEach: expect.any(Number),
    committedEach: expect.any(Number),
    closeMs: expect.any(Number),
    left: [],
  })
  expect(taken.grownMiB).toBeLessThanOrEqual(500)
  // 16 of a build at most; run from its sources, each worker has a thread of the loader beside it.
  expect(taken.threads).toBeLessThanOrEqual(24)
  // The threads of the process have some of their own, an event loop four: well below one a session.
  const shared = 150 / SESSIONS
  expect(taken.openedEach).toBeLessThanOrEqual(OF_A_SESSION + shared)
  expect(taken.committedEach).toBeLessThanOrEqual(OF_A_SESSION + OF_A_DATABASE + shared)
  expect(taken.closeMs).toBeLessThan(60_000)
  expect((await exit)[0]).toBe(0)
})
