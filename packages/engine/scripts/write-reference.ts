import { mkdirSync, writeFileSync } from 'node:fs'
import { referencePages } from './reference/pages.ts'

// Run from anywhere: npm run reference
const docs = new URL('../../../docs/reference/', import.meta.url)
mkdirSync(docs, { recursive: true })
for (const [name, text] of Object.entries(referencePages())) writeFileSync(new URL(name, docs), text)
