import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { tempDir } from '@nexus/host/testing'
import { describe, expect, it } from 'vitest'
import { nexus } from './session-fixture.ts'

const hasShell = (shell: string): boolean => spawnSync(shell, ['-c', 'true']).status === 0

async function scriptFile(shell: string): Promise<string> {
  const file = join(tempDir(), 'nexus-completion')
  writeFileSync(file, (await nexus('completion', shell)).lines.join('\n'))
  return file
}

it('is sourced by bash, and completes commands, options and what follows a global option', async () => {
  const file = await scriptFile('bash')
  const complete = (...words: string[]): string[] => {
    const list = words.map((word) => `'${word}'`).join(' ')
    const run = `source '${file}'; COMP_WORDS=(nexus ${list}); COMP_CWORD=${words.length}; _nexus; printf '%s\\n' "\${COMPREPLY[@]}"`
    const { stdout, stderr } = spawnSync('bash', ['--norc', '-euc', run], { encoding: 'utf8' })
    expect(stderr).toBe('')
    return stdout.trim().split('\n')
  }
  expect(complete('sess')).toEqual(['sessions'])
  expect(complete('sessions', 'ex')).toEqual(['export'])
  expect(complete('--config', 'journal', 'sessions', 'sh')).toEqual(['show'])
  expect(complete('journal', 'tail', 's1', '--fo')).toEqual(['--follow'])
  expect(complete('sessions', 'rm', '--ye')).toEqual(['--yes'])
})

describe.each(['zsh', 'fish'])('%s', (shell) => {
  it.skipIf(!hasShell(shell))('reads its script', async () => {
    const file = await scriptFile(shell)
    const { status, stderr } = spawnSync(shell, ['-n', file], { encoding: 'utf8' })
    expect([status, stderr]).toEqual([0, ''])
  })
})

it('refuses a shell that it has no script for', async () => {
  expect((await nexus('completion', 'tcsh')).code).toBe(2)
})
