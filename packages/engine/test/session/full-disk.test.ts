import { fork, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { openTestWorkspace } from './open-test-workspace.ts'

const hasLimits = spawnSync('prlimit', ['--version']).status === 0

describe('a full disk', () => {
  it('tears no record, replaces no file, and leaves no piece of a new one', async ({ skip }) => {
    skip(!hasLimits, 'needs prlimit of util-linux to make a disk look full')
    const { dir } = await openTestWorkspace()
    writeFileSync(join(dir, 'files/whole'), 'old')
    const child = fork(fileURLToPath(new URL('./full-disk-child.ts', import.meta.url)), [dir, '100000'], {
      execArgv: process.execArgv,
    })
    const [answer] = (await once(child, 'message')) as [unknown]
    expect(answer).toEqual({
      written: 3,
      code: 'LOCAL_IO',
      op: 'session.append',
      whole: 'LOCAL_IO',
      first: 'LOCAL_IO',
    })
    expect(readFileSync(join(dir, 'files/log')).equals(Buffer.from(`${'r'.repeat(29_999)}\n`.repeat(3)))).toBe(true)
    expect(readFileSync(join(dir, 'files/whole'), 'utf8')).toBe('old')
    expect(readdirSync(join(dir, 'files')).toSorted()).toEqual(['log', 'whole'])
  })
})
