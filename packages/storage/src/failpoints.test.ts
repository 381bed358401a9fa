import { readdirSync, readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { FAILPOINTS } from './failpoints.ts'

it('lists every failpoint that the sources name, once', () => {
  const dir = new URL('.', import.meta.url)
  const sources = readdirSync(dir, { recursive: true, encoding: 'utf8' }).filter(
    (name) => name.endsWith('.ts') && !name.endsWith('.test.ts'),
  )
  const named = sources
    .filter((name) => name !== 'failpoints.ts')
    .flatMap((name) => readFileSync(new URL(name, dir), 'utf8').match(/'storage:[a-z-]+'/g) ?? [])
    .map((quoted) => quoted.slice(1, -1))
  expect([...new Set(named)].toSorted()).toEqual([...FAILPOINTS].toSorted())
  expect(new Set(FAILPOINTS).size).toBe(FAILPOINTS.length)
})
