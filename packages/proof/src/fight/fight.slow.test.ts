import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { fight } from './fight.ts'

it.each(['fs', 'emulator'] as const)('processes that fight for one session on %s leave one chain', async (store) => {
  const dir = mkdtempSync(join(tmpdir(), 'nexus-fight-'))
  const said: string[] = []
  const problems = await fight({ store, minutes: 0.3, fighters: 4, seed: 1 }, dir, (text) => said.push(text))
  expect({ problems, said }).toMatchObject({ problems: [] })
  rmSync(dir, { recursive: true, force: true })
})
