import { writeFileSync } from 'node:fs'
import { commandReference } from '../src/reference.ts'

// Run from anywhere: npx tsx --conditions @nexus/source packages/cli/scripts/write-reference.ts
writeFileSync(new URL('../../../docs/reference/command-line.md', import.meta.url), commandReference())
