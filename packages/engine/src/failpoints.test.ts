import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { FAILPOINTS } from './failpoints.ts'

const sourceDir = fileURLToPath(new URL('.', import.meta.url))

function failpointsInSources(): string[] {
  return readdirSync(sourceDir, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts') && !name.endsWith('.test.ts'))
    .flatMap((name) => [...readFileSync(join(sourceDir, name), 'utf8').matchAll(/failpoint\(\s*'([^']+)'/gi)])
    .map((match) => match[1] as string)
}

it('lists every failpoint that the sources of the engine pass', () => {
  expect(failpointsInSources().length).toBeGreaterThan(20)
  expect(failpointsInSources().filter((name) => !FAILPOINTS.includes(name))).toEqual([])
})

it('names no failpoint twice', () => {
  expect(FAILPOINTS.filter((name, index) => FAILPOINTS.indexOf(name) !== index)).toEqual([])
})
