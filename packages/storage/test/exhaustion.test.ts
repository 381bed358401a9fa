import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { expect, it, onTestFinished } from 'vitest'
import { tempDir } from './temp-dir.ts'

it('without descriptors nothing is left out of a snapshot: it fails, and names the limit', async () => {
  const program = fileURLToPath(new URL('fixtures/exhausted-child.ts', import.meta.url))
  const command = ['-c', 'ulimit -n 120 && exec "$0" "$@"', process.execPath, ...process.execArgv, program, tempDir()]
  const child = spawn('/bin/sh', command, { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
  onTestFinished(() => void child.kill('SIGKILL'))
  const said: [what: string, code: string, detail: string][] = []
  child.on('message', (message) => said.push(message as never))
  await once(child, 'exit')

  const snapshots = said.filter(([what]) => what === 'snapshot')
  const failed = said.filter(([, code]) => code !== 'ok')
  expect(failed.length).toBeGreaterThan(5)
  for (const [, code, message] of failed) {
    expect([code, message]).toEqual(['LOCAL_IO', expect.stringContaining('open files limit (ulimit -n 120)')])
  }
  const opened = said.filter(([what, code]) => what === 'open' && code === 'ok').length
  // Whatever succeeded held every database that was open by then, and at least the two from before.
  const counts = snapshots.filter(([, code]) => code === 'ok').map(([, , count]) => Number(count))
  expect(Math.min(2, ...counts)).toBe(2)
  const [after] = said.filter(([what]) => what === 'after')
  expect(after?.[2].split(' ')).toEqual(expect.arrayContaining(['large', 'small']))
  expect(after?.[2].split(' ')).toHaveLength(2 + opened)
})
