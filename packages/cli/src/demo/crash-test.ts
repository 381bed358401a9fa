import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import { parseArgs } from 'node:util'
import { FAILPOINTS } from '@nexus/engine/failpoints'
import { EXIT } from '../exit-codes.ts'
import { table } from '../output.ts'
import { crashOnce, type CrashFailpoints, type CrashRun } from './crash-run.ts'
import { LAYOUTS, type LayoutName } from './host-order.ts'

/** What a kill inside a hydration chooses from. */
const HYDRATION = /^hydrate:/
/** What happens only where a session is created or hydrated, before there is anything to lose. */
const BEFORE_WORK = /^(boot|create-tree|resolve-tree|rewind|shared-pull):/

function failpoints(): CrashFailpoints {
  return {
    working: FAILPOINTS.filter((name) => !HYDRATION.test(name) && !BEFORE_WORK.test(name)),
    hydration: FAILPOINTS.filter((name) => HYDRATION.test(name)),
  }
}

function describe({ seed, kill, killed, acknowledged, resumed, mixed, problems }: CrashRun): string[] {
  const where = kill.how === 'time' ? `after ${kill.afterMs} ms` : `at ${kill.failpoint} (visit ${kill.visit})`
  return [
    problems.length === 0 ? 'ok' : 'FAILED',
    `seed ${seed}`,
    killed ? where : `${where}, not reached`,
    `${acknowledged} turns acknowledged, ${resumed} resumed`,
    mixed.length === 0 ? '' : `mixed: ${mixed.join(', ')}`,
  ]
}

const USAGE = 'usage: npm run crash-test -- [--runs N] [--seed N] [--layout mirror|versioned] [--import MODULE]'

function readOptions(): { runs: string; seed: string; layout: string; import: string } {
  try {
    return parseArgs({
      options: {
        runs: { type: 'string', default: '100' },
        seed: { type: 'string', default: String(Date.now() % 1_000_000) },
        layout: { type: 'string', default: 'mirror' },
        import: { type: 'string', default: '@nexus/objectstore-fs' },
      },
    }).values
  } catch (error) {
    process.stderr.write(`${(error as Error).message}\n${USAGE}\n`)
    return process.exit(EXIT.usage)
  }
}

const values = readOptions()

function wholeNumber(name: 'runs' | 'seed'): number {
  const value = Number(values[name])
  if (Number.isSafeInteger(value) && value >= 0) return value
  process.stderr.write(`--${name} must be a whole number from 0, not "${values[name]}"\n`)
  return process.exit(EXIT.usage)
}

function layoutName(): LayoutName {
  const layout = LAYOUTS.find((name) => name === values.layout)
  if (layout !== undefined) return layout
  process.stderr.write(`--layout must be ${LAYOUTS.join(' or ')}, not "${values.layout}"\n`)
  return process.exit(EXIT.usage)
}

const backend = { module: values.import, layout: layoutName() }
const firstSeed = wholeNumber('seed')
const runs = wholeNumber('runs')
process.stdout.write(`crash test: ${runs} runs from seed ${firstSeed}, layout ${backend.layout}\n`)
const found: CrashRun[] = []
for (let seed = firstSeed; seed < firstSeed + runs; seed += 1) {
  const dir = mkdtempSync(join(tmpdir(), 'nexus-crash-'))
  const run = await crashOnce(dir, seed, backend, failpoints())
  found.push(run)
  process.stdout.write(`${table([describe(run)]).join('')}\n`)
  if (run.problems.length === 0) rmSync(dir, { recursive: true, force: true })
  else process.stdout.write(`${run.problems.map((problem) => `  ${problem}`).join('\n')}\n  kept: ${dir}\n`)
}
const failed = found.filter(({ problems }) => problems.length > 0)
const mixed = found.filter((run) => run.mixed.length > 0)
const missed = found.filter(({ killed }) => !killed)
process.stdout.write(
  `${runs - failed.length} of ${runs} runs resumed what was committed; ` +
    `in ${mixed.length} the kill fell into an upload and rewritten objects were reported as mixed; ` +
    `in ${missed.length} the place to die was not reached\n`,
)
process.exitCode = failed.length === 0 ? EXIT.ok : EXIT.failed
