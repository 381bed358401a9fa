import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { eventReferencePage } from '../bus/event-reference.ts'
import { configReference } from './load.ts'

// Out of date? Run: npx tsx --conditions @nexus/source packages/engine/scripts/write-reference.ts
const page = (name: string): string =>
  readFileSync(new URL(`../../../../docs/reference/${name}`, import.meta.url), 'utf8')

describe('the reference pages', () => {
  it('configuration.md is what the schema says', async () => {
    expect(page('configuration.md')).toBe(await configReference())
  })

  it('events.md is what the event definitions say', () => {
    expect(page('events.md')).toBe(eventReferencePage())
  })
})
