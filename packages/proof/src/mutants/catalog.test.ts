import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { REPOSITORY_ROOT } from '../repository-root.ts'
import { MUTANTS } from './catalog.ts'

function read(file: string): string {
  return readFileSync(join(REPOSITORY_ROOT, file), 'utf8')
}

describe('the catalog of mutants', () => {
  it('names each of them once', () => {
    const ids = MUTANTS.map(({ id }) => id)
    expect(new Set(ids).size).toBe(ids.length)
  })

  it.each(MUTANTS)('$id still fits the sources: its text is there exactly once', ({ file, find, replace }) => {
    expect(file, 'its text stands in one file of the package').toMatch(/\.ts$/)
    expect(read(file).split(find)).toHaveLength(2)
    expect(replace).not.toBe(find)
  })

  it.each(MUTANTS)('$id names tests that exist', ({ tests }) => {
    expect(tests.length).toBeGreaterThan(0)
    for (const { file, name } of tests) expect(read(file)).toContain(name)
  })
})
