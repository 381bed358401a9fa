import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { referencePages } from '../scripts/reference/pages.ts'

// Out of date? Run: npm run reference
describe('the reference pages', () => {
  it.each(Object.entries(referencePages()))('%s is what the tables of keys and events say', (name, text) => {
    expect(readFileSync(new URL(`../../../docs/reference/${name}`, import.meta.url), 'utf8')).toBe(text)
  })
})
