import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import { parseArgs } from 'node:util'
import { FAILPOINTS } from '@nexus/engine'
import { table } from '../output.ts'
import { crashOnce, type CrashFailpoints, type CrashRun } from './crash-run.ts'

/** What a kill inside a hydration chooses from. */
const HYDRATION = /^hydrate:/
/** What happens only where a session is created or hydrated, before there is anything to lose. */
const BEFORE_WORK = /^(create-tree|resolve-tree|rewind|shared-pull):/

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

const { values } = parseArgs({
  options: {
    runs: { type: 'string', default: '100' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    import: { type: 'string', default: '@nexus/objectstore-fs' },
  },
})
const firstSeed = Number(values.seed)
const runs = Number(values.runs)
process.stdout.write(`crash test: ${runs} runs from seed ${firstSeed}\n`)
let failed = 0
for (let seed = firstSeed; seed < firstSeed + runs; seed += 1) {
  const dir = mkdtempSync(join(tmpdir(), 'nexus-crash-'))
  const found = await crashOnce(dir, seed, values.import, failpoints())
  process.stdout.write(`${table([describe(found)]).join('')}\n`)
  if (found.problems.length > 0) {
    failed += 1
    process.stdout.write(`${found.problems.map((problem) => `  ${problem}`).join('\n')}\n  kept: ${dir}\n`)
  } else rmSync(dir, { recursive: true, force: true })
}
process.stdout.write(`${runs - failed} of ${runs} runs resumed what was committed\n`)
process.exitCode = failed === 0 ? 0 : 1
