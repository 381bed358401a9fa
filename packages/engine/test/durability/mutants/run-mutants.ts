import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { MUTANTS, type Mutant } from './mutants.ts'

// Makes each deliberate mistake in turn and demands that its tests notice: node --import tsx run-mutants.ts [part of a name]
const packageDir = join(import.meta.dirname, '../../..')
const rootDir = join(packageDir, '../..')
const chosen = MUTANTS.filter(({ name }) => name.includes(process.argv[2] ?? ''))

function survives({ name, file, find, tests }: Mutant): string | undefined {
  const source = readFileSync(join(packageDir, 'src/durability', file), 'utf8')
  if (source.split(find).length !== 2) return `${file} does not hold its text once any more`
  const files = tests.map((test) => join('packages/engine', test))
  const config = 'packages/engine/test/durability/mutants/mutant.config.ts'
  const run = spawnSync('npx', ['vitest', 'run', '--config', config, '--root', rootDir, ...files], {
    cwd: rootDir,
    env: { ...process.env, NEXUS_MUTANT: name },
    encoding: 'utf8',
    timeout: 600_000,
  })
  const output = `${run.stdout}${run.stderr}`
  if (run.status === 0) return 'no test noticed'
  // A mutant that doesn't load proves nothing.
  return /FAIL/.test(output) && !/SyntaxError|Transform failed|no tests/i.test(output)
    ? undefined
    : output.slice(-2_000)
}

let survivors = 0
for (const mutant of chosen) {
  const why = survives(mutant)
  if (why !== undefined) survivors += 1
  process.stdout.write(
    `${why === undefined ? 'noticed ' : 'SURVIVES'}  ${mutant.name}${why === undefined ? '' : `: ${why}`}\n`,
  )
}
process.stdout.write(`${chosen.length - survivors} of ${chosen.length} mutants noticed\n`)
process.exitCode = survivors === 0 ? 0 : 1
