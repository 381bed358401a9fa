import { mkdirSync, writeFileSync } from 'node:fs'
import { eventReferencePage } from '../src/bus/event-reference.ts'
import { configReferencePage } from '../src/config/config-reference.ts'

// Run from anywhere: npx tsx --conditions @nexus/source packages/engine/scripts/write-reference.ts
const docs = new URL('../../../docs/reference/', import.meta.url)
mkdirSync(docs, { recursive: true })
writeFileSync(new URL('configuration.md', docs), configReferencePage())
writeFileSync(new URL('events.md', docs), eventReferencePage())
