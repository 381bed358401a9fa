import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { tempDir } from '@nexus/host/testing'
import process from 'node:process'
import { expect, it } from 'vitest'

it('is a program: its answer on standard output, its remarks on standard error, its exit code', () => {
  const bin = fileURLToPath(new URL('../src/bin.ts', import.meta.url))
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    [...process.execArgv, bin, 'sessions', 'show', 'none', '--json', '--root', tempDir()],
    { encoding: 'utf8' },
  )
  expect(status).toBe(1)
  expect(JSON.parse(stdout)).toMatchObject({ error: { code: 'NOT_FOUND' } })
  expect(stderr).toMatch(/^nexus: session none: there is none in /)
})
