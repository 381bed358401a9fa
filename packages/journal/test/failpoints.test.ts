import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { FAILPOINTS } from '../src/index.ts'

const source = new URL('../src/', import.meta.url)
const used = readdirSync(source, { encoding: 'utf8', recursive: true })
  .filter((name) => name.endsWith('.ts') && !name.endsWith('.test.ts') && name !== 'files/failpoints.ts')
  .flatMap((name) => [...readFileSync(new URL(name, source), 'utf8').matchAll(/failpoint\('([^']+)'\)/g)])
  .map((match) => match[1] ?? '')

describe('FAILPOINTS', () => {
  it('names every failpoint of the source, and no other', () => {
    expect([...new Set(used)].toSorted()).toEqual([...FAILPOINTS].toSorted())
  })

  it('names each once', () => {
    expect(new Set(FAILPOINTS).size).toBe(FAILPOINTS.length)
  })
})
