import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'

const CHILD = fileURLToPath(new URL('./failing-journal-child.ts', import.meta.url))

it('a journal that can not be written is one core.error, in the status, refuses input, and does not hold up the stop', () => {
  const root = mkdtempSync(join(tmpdir(), 'nexus-full-'))
  // In blocks of 1 KiB.
  const child = spawnSync('bash', [
    '-c',
    'ulimit -f 48; exec "$@"',
    'bash',
    process.execPath,
    ...process.execArgv,
    CHILD,
    root,
  ])
  rmSync(root, { recursive: true, force: true })
  expect(child.stderr.toString()).toBe('')
  const told = JSON.parse(child.stdout.toString()) as Record<string, unknown>
  expect(told).toMatchObject({
    errors: [
      { source: 'core.journal', error: expect.stringContaining('EFBIG') as string, fatal: false, retryable: true },
    ],
    journalBehind: expect.stringContaining('EFBIG') as string,
    input: { accepted: false, reason: expect.stringContaining("the journal can't be written") as string },
  })
  expect(told['stopMs']).toBeLessThan(1_500)
})
