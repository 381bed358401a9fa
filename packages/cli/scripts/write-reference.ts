import { writeFileSync } from 'node:fs'
import { commandReference } from '../src/reference.ts'

// Run from anywhere: npm run reference
writeFileSync(new URL('../../../docs/reference/command-line.md', import.meta.url), commandReference())
