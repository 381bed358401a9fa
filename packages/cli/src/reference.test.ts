import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { commandReference } from './reference.ts'

it('is the page in the docs: run packages/cli/scripts/write-reference.ts after a change', () => {
  const page = readFileSync(new URL('../../../docs/reference/command-line.md', import.meta.url), 'utf8')
  expect(page).toBe(commandReference())
})
