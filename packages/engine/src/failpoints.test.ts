import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { FAILPOINTS } from './failpoints.ts'

const sourceDirs = ['.', '../../durability/src/', '../../host/src/'].map((dir) =>
  fileURLToPath(new URL(dir, import.meta.url)),
)

function failpointsInSources(): string[] {
  return sourceDirs
    .flatMap((dir) => readdirSync(dir, { recursive: true, encoding: 'utf8' }).map((name) => join(dir, name)))
    .filter((path) => path.endsWith('.ts') && !path.endsWith('.test.ts'))
    .flatMap((path) => [...readFileSync(path, 'utf8').matchAll(/failpoint\(\s*'([^']+)'/gi)])
    .map((match) => match[1] as string)
}

it('lists every failpoint that the sources of the engine pass', () => {
  expect(failpointsInSources().length).toBeGreaterThan(20)
  expect(failpointsInSources().filter((name) => !FAILPOINTS.includes(name))).toEqual([])
})

it('names no failpoint twice', () => {
  expect(FAILPOINTS.filter((name, index) => FAILPOINTS.indexOf(name) !== index)).toEqual([])
})
